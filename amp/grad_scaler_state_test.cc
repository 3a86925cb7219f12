// Saving and loading: the same run after a resume, all formats, what is refused.
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>

#include "amp/grad_scaler.h"
#include "amp/raises.h"

namespace scramjet::amp {
namespace {

GradScaler make_scaler() {
  return GradScaler(at::kCPU, GradScalerOptions().init_scale(4).growth_interval(3));
}

struct Training {
  at::Tensor weight = at::full({1, 2}, .25).requires_grad_();
  torch::optim::SGD optimizer{std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(.1)};
  GradScaler scaler = make_scaler();

  double iterate(bool bad) {
    optimizer.zero_grad();
    const at::Tensor loss = at::linear(at::ones({1, 2}), weight).sum();
    scaler.scale(bad ? loss * std::numeric_limits<double>::infinity() : loss).backward();
    scaler.step(optimizer);
    scaler.update();
    return scaler.get_scale();
  }
};

std::string temporary(const char* name) { return ::testing::TempDir() + "/" + name; }

/// From one scaler into another, each in its own way.
using Transfer = void (*)(const GradScaler& from, GradScaler& to);

const std::pair<const char*, Transfer> kTransfers[] = {
    {"dict", [](const GradScaler& from, GradScaler& to) { to.load_state_dict(from.state_dict()); }},
    {"file",
     [](const GradScaler& from, GradScaler& to) {
       const std::string path = temporary("scaler_state.pt");
       from.save_state_dict(path);
       to.load_state_dict_file(path);
     }},
    {"archive",
     [](const GradScaler& from, GradScaler& to) {
       std::stringstream stream;
       torch::save(from, stream);
       torch::load(to, stream);
     }},
    {"archive file",
     [](const GradScaler& from, GradScaler& to) {
       const std::string path = temporary("scaler_archive.pt");
       torch::save(from, path);
       torch::load(to, path);
     }},
    {"pickle",
     [](const GradScaler& from, GradScaler& to) {
       const auto bytes = torch::pickle_save(from.state_dict());
       to.load_state_dict(torch::pickle_load(bytes).toGenericDict());
     }},
};

// In the middle of a growth interval, into a scaler before and after its first scale().
TEST(GradScalerState, AResumedRunGoesOnAsIfItHadNotStopped) {
  for (const auto& [name, transfer] : kTransfers) {
    for (const bool used : {false, true}) {
      SCOPED_TRACE(::testing::Message() << name << ", used " << used);
      Training whole;
      for (int i = 0; i < 4; ++i) whole.iterate(i == 1);
      Training resumed;
      if (used) {
        resumed.iterate(false);
        resumed.iterate(true);
      }
      const double scale = whole.scaler.get_scale();
      transfer(whole.scaler, resumed.scaler);
      EXPECT_EQ(resumed.scaler.get_scale(), scale);
      EXPECT_EQ(resumed.scaler.get_growth_tracker(), 2);
      resumed.weight.detach().copy_(whole.weight.detach());
      for (int i = 0; i < 4; ++i) EXPECT_EQ(resumed.iterate(false), whole.iterate(false));
      EXPECT_EQ(whole.scaler.get_scale(), 4 * scale);  // grew after one step, and three later
      EXPECT_TRUE(resumed.weight.equal(whole.weight));
    }
  }
}

TEST(GradScalerState, TheFactorsAreLoadedToo) {
  for (const auto& [name, transfer] : kTransfers) {
    SCOPED_TRACE(name);
    const GradScaler from(
        at::kCPU,
        GradScalerOptions().init_scale(3).growth_factor(1.5).backoff_factor(.75).growth_interval(
            int64_t{1} << 40));
    GradScaler to = make_scaler();
    transfer(from, to);
    EXPECT_EQ(to.get_scale(), 3);
    EXPECT_EQ(to.get_growth_factor(), 1.5);
    EXPECT_EQ(to.get_backoff_factor(), .75);
    EXPECT_EQ(to.get_growth_interval(), int64_t{1} << 40);
  }
}

TEST(GradScalerState, HasPythonsKeys) {
  std::vector<std::string> keys;
  for (const auto& entry : make_scaler().state_dict()) keys.push_back(entry.key().toStringRef());
  EXPECT_EQ(keys, std::vector<std::string>({"scale", "growth_factor", "backoff_factor",
                                            "growth_interval", "_growth_tracker"}));
}

TEST(GradScalerState, ADisabledOnesIsEmpty) {
  GradScaler disabled(at::kCPU, GradScalerOptions().enabled(false));
  EXPECT_TRUE(disabled.state_dict().empty());
  for (const auto& [name, transfer] : kTransfers) {
    SCOPED_TRACE(name);
    GradScaler enabled = make_scaler();
    EXPECT_TRUE(
        raises("The source state dict is empty, possibly because it was saved from a "
               "disabled instance of GradScaler",
               [&, move = transfer] { move(disabled, enabled); }));
    transfer(enabled, disabled);
    transfer(disabled, disabled);
    EXPECT_TRUE(disabled.state_dict().empty());
  }
}

TEST(GradScalerState, TakesAllEntriesOrNone) {
  Training run;
  run.iterate(false);
  c10::impl::GenericDict state = run.scaler.state_dict();
  state.insert_or_assign("scale", 1024);  // Python's user wrote an int
  EXPECT_EQ(state.erase("_growth_tracker"), 1U);
  EXPECT_TRUE(raises("has no entry '_growth_tracker'", [&] { run.scaler.load_state_dict(state); }));
  state.insert("_growth_tracker", "two");
  EXPECT_TRUE(raises<c10::TypeError>("'_growth_tracker' should be an int, got String",
                                     [&] { run.scaler.load_state_dict(state); }));
  EXPECT_EQ(run.scaler.get_scale(), 4);
  EXPECT_EQ(run.scaler.get_growth_tracker(), 1);
  state.insert_or_assign("_growth_tracker", 2);
  run.scaler.load_state_dict(state);
  EXPECT_EQ(run.scaler.get_scale(), 1024);
  EXPECT_EQ(run.iterate(false), 2048);
}

TEST(GradScalerState, FilesThatAreNone) {
  GradScaler scaler = make_scaler();
  EXPECT_TRUE(
      raises("cannot open ", [&] { scaler.load_state_dict_file(temporary("no_such_file.pt")); }));
  EXPECT_ANY_THROW(scaler.save_state_dict(temporary("no_such_folder/state.pt")));
  const std::string path = temporary("not_a_state.pt");
  const auto bytes = torch::pickle_save("text");
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(raises<c10::TypeError>("got String", [&] { scaler.load_state_dict_file(path); }));
  std::ofstream(path) << "no zip";
  EXPECT_ANY_THROW(scaler.load_state_dict_file(path));
  EXPECT_EQ(scaler.get_scale(), 4);
}

}  // namespace
}  // namespace scramjet::amp

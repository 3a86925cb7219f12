#include "amp/distributed.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <limits>
#include <vector>

#include "amp/on_ranks.h"
#include "amp/raises.h"

namespace scramjet::amp {
namespace {

constexpr int kRanks = 3;

/// The same on every call with the same numbers.
at::Tensor filled(at::IntArrayRef sizes, at::ScalarType dtype, int seed) {
  const at::Tensor values =
      at::rand(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
  return values.mul(8).sub(4).to(dtype);
}

at::Tensor parameter_like(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::zeros(sizes, dtype).set_requires_grad(true);
}

at::Tensor mean_over_ranks(at::IntArrayRef sizes, at::ScalarType dtype, int seed) {
  at::Tensor sum = at::zeros(sizes, at::isComplexType(dtype) ? at::kComplexDouble : at::kDouble);
  for (int rank = 0; rank < kRanks; ++rank) sum += filled(sizes, dtype, seed + rank);
  return sum / kRanks;
}

TEST(AverageGradients, IsTheMeanForEveryDtypeAndBucketSize) {
  const std::vector<std::vector<int64_t>> sizes{{5}, {3, 4}, {}, {0, 2}, {2, 3, 1, 2}, {1}};
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble}) {
    for (const int64_t bucket_bytes : {1, 40, 1 << 20}) {
      on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
        std::vector<at::Tensor> parameters;
        for (size_t i = 0; i < sizes.size(); ++i) {
          parameters.push_back(parameter_like(sizes[i], dtype));
          parameters[i].mutable_grad() = filled(sizes[i], dtype, 10 * i + rank);
        }
        average_gradients(parameters, group, bucket_bytes);
        const double tolerance = dtype == at::kBFloat16 ? 5e-2 : dtype == at::kHalf ? 1e-2 : 1e-6;
        for (size_t i = 0; i < sizes.size(); ++i) {
          const at::Tensor& gradient = parameters[i].grad();
          EXPECT_EQ(gradient.scalar_type(), dtype);
          const at::Tensor mean = mean_over_ranks(sizes[i], dtype, 10 * i);
          EXPECT_TRUE(gradient.to(mean.scalar_type()).allclose(mean, tolerance, tolerance))
              << dtype << " " << i << "\n"
              << gradient << mean;
        }
      });
    }
  }
}

TEST(AverageGradients, TakesParametersOfSeveralDtypesInOneCall) {
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    std::vector<at::Tensor> parameters;
    for (int i = 0; i < 6; ++i) {
      parameters.push_back(parameter_like({4, i}, i % 2 == 0 ? at::kFloat : at::kDouble));
      parameters.back().mutable_grad() = at::full_like(parameters.back(), rank + i);
    }
    average_gradients(parameters, group);
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(parameters[i].grad().allclose(at::full_like(parameters[i], 1 + i)));
    }
  });
}

TEST(AverageGradients, KeepsTheGradientsTensorAndItsStrides) {
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    std::vector<at::Tensor> parameters, gradients;
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      parameters.push_back(parameter_like({2, 3, 4, 5}));
      // Strides may differ from rank to rank.
      gradients.push_back(filled({2, 3, 4, 5}, at::kFloat, rank)
                              .contiguous(rank == 1 ? at::MemoryFormat::Contiguous : format));
    }
    parameters.push_back(parameter_like({4, 3}));
    gradients.push_back(filled({3, 4}, at::kFloat, rank).t());
    std::vector<std::vector<int64_t>> strides;
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].mutable_grad() = gradients[i];
      strides.push_back(gradients[i].strides().vec());
    }
    average_gradients(parameters, group, /*bucket_bytes=*/500);
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(parameters[i].grad().is_same(gradients[i]));
      EXPECT_EQ(gradients[i].strides().vec(), strides[i]);
    }
    const auto mean = mean_over_ranks({2, 3, 4, 5}, at::kFloat, 0).to(at::kFloat);
    EXPECT_TRUE(gradients[0].allclose(mean, 1e-6, 1e-6));
    EXPECT_TRUE(gradients[1].allclose(mean, 1e-6, 1e-6));
    EXPECT_TRUE(gradients[2].allclose(mean_over_ranks({3, 4}, at::kFloat, 0).to(at::kFloat).t(),
                                      1e-6, 1e-6));
  });
}

TEST(AverageGradients, WritesToExpandedGradients) {
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    const at::Tensor parameter = parameter_like({3, 2});
    parameter.mutable_grad() = at::full({}, rank, at::kFloat).expand({3, 2});
    average_gradients({parameter}, group);
    EXPECT_TRUE(parameter.grad().equal(at::ones({3, 2})));
  });
}

TEST(AverageGradients, CountsTiedParametersOnce) {
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    const at::Tensor parameter = parameter_like({3}), other = parameter_like({3});
    parameter.mutable_grad() = at::full({3}, rank, at::kFloat);
    other.mutable_grad() = at::full({3}, 2 * rank, at::kFloat);
    average_gradients({parameter, other, parameter}, group, /*bucket_bytes=*/1);
    EXPECT_TRUE(parameter.grad().equal(at::ones({3})));
    EXPECT_TRUE(other.grad().equal(at::full({3}, 2, at::kFloat)));
  });
}

TEST(AverageGradients, CountsAMissingGradientAsZero) {
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    const at::Tensor on_all = parameter_like({2}), on_one = parameter_like({2, 2}),
                     on_none = parameter_like({3});
    on_all.mutable_grad() = at::full({2}, rank, at::kFloat);
    if (rank == 1) on_one.mutable_grad() = at::full({2, 2}, 6, at::kFloat);
    average_gradients({on_none, on_one, on_all}, group);
    EXPECT_TRUE(on_all.grad().equal(at::ones({2})));
    EXPECT_TRUE(on_one.grad().equal(at::full({2, 2}, 2, at::kFloat)));
    EXPECT_FALSE(on_none.grad().defined());
  });
}

TEST(AverageGradients, OfNoParametersOrNoGradientsIsNothing) {
  on_ranks(kRanks, [&](int /*rank*/, const ProcessGroupPtr& group) {
    average_gradients({}, group);
    const at::Tensor parameter = parameter_like({2});
    average_gradients({parameter}, group);
    EXPECT_FALSE(parameter.grad().defined());
  });
}

TEST(AverageGradients, AveragesSparseGradients) {
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    const at::Tensor parameter = parameter_like({6, 2});
    if (rank != 2) {  // uncoalesced: row 1 twice
      parameter.mutable_grad() = at::sparse_coo_tensor(
          at::tensor({1, 1, 3 + rank}, at::kLong).unsqueeze(0), at::full({3, 2}, 3.F), {6, 2});
    }
    average_gradients({parameter}, group);
    ASSERT_TRUE(parameter.grad().is_sparse());
    const at::Tensor expected = at::zeros({6, 2});
    expected[1].fill_(4);
    expected[3].fill_(1);
    expected[4].fill_(1);
    EXPECT_TRUE(parameter.grad().to_dense().equal(expected)) << parameter.grad().to_dense();
  });
}

TEST(AverageGradients, LetsInfAndNaNThrough) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    const at::Tensor parameter = parameter_like({4});
    parameter.mutable_grad() = at::ones({4});
    if (rank == 2) parameter.mutable_grad() = at::tensor({1.F, kInf, -kInf, NAN});
    average_gradients({parameter}, group);
    const at::Tensor& gradient = parameter.grad();
    EXPECT_FLOAT_EQ(gradient[0].item<float>(), 1);
    EXPECT_EQ(gradient[1].item<float>(), kInf);
    EXPECT_EQ(gradient[2].item<float>(), -kInf);
    EXPECT_TRUE(std::isnan(gradient[3].item<float>()));
  });
}

TEST(AverageGradients, DifferentArgumentsAreTheSameErrorOnEveryRank) {
  struct Case {
    std::string phrase;
    std::function<std::vector<at::Tensor>(int rank)> parameters;
  };
  const auto with_gradient = [](at::Tensor gradient) {
    at::Tensor parameter = parameter_like({2});
    parameter.mutable_grad() = std::move(gradient);
    return parameter;
  };
  const std::vector<Case> cases{
      {"same number of parameters, got from 0 to 1",
       [](int rank) { return std::vector<at::Tensor>(rank % 2, parameter_like({2})); }},
      {"but element 1 differs",
       [](int rank) {
         return std::vector{parameter_like({2}), parameter_like({rank == 1 ? 3 : 4})};
       }},
      {"but element 0 differs",
       [](int rank) {
         return std::vector{parameter_like({2}, rank == 0 ? at::kFloat : at::kHalf)};
       }},
      {"gradient of parameter 0, on rank 2, has not its parameter's sizes",
       [&](int rank) { return std::vector{with_gradient(at::ones({rank == 2 ? 3 : 2}))}; }},
      {"gradient of parameter 0 is sparse on one rank and dense on another",
       [&](int rank) {
         const at::Tensor dense = at::ones({2});
         return std::vector{with_gradient(rank == 0 ? dense.to_sparse() : dense)};
       }},
  };
  for (const Case& test : cases) {
    on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
      const auto parameters = test.parameters(rank);
      EXPECT_TRUE(
          raises<c10::ValueError>(test.phrase, [&] { average_gradients(parameters, group); }));
      // The group is still usable.
      const at::Tensor parameter = with_gradient(at::ones({2}));
      average_gradients({parameter}, group);
    });
  }
}

TEST(AverageGradients, RefusesWhatItCannotAverage) {
  on_ranks(1, [](int /*rank*/, const ProcessGroupPtr& group) {
    const auto average = [&](const std::vector<at::Tensor>& parameters, int64_t bytes) {
      return [=] { average_gradients(parameters, group, bytes); };
    };
    EXPECT_TRUE(raises<c10::ValueError>("parameters[1] is undefined",
                                        average({parameter_like({2}), {}}, 1)));
    EXPECT_TRUE(raises<c10::ValueError>("bucket_bytes should be > 0, got 0", average({}, 0)));
    EXPECT_TRUE(raises<c10::ValueError>("group is null", [] { average_gradients({}, {}); }));
  });
}

TEST(AverageGradients, NamesARankThatHasGone) {
  const auto start = std::chrono::steady_clock::now();
  on_ranks(
      2,
      [](int rank, const ProcessGroupPtr& group) {
        const at::Tensor parameter = parameter_like({2});
        parameter.mutable_grad() = at::ones({2});
        average_gradients({parameter}, group);
        if (rank == 1) return;
        EXPECT_TRUE(
            raises<c10::DistBackendError>("average_gradients(): rank 0 of 2 failed in all-reduce",
                                          [&] { average_gradients({parameter}, group); }));
      },
      std::chrono::seconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(AverageGradients, TimesOutOnARankThatWaits) {
  on_ranks(
      2,
      [](int rank, const ProcessGroupPtr& group) {
        if (rank == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          return;
        }
        EXPECT_TRUE(raises<c10::DistBackendError>("rank 0 of 2 failed in all-reduce",
                                                  [&] { average_gradients({}, group); }));
      },
      std::chrono::seconds(1));
}

TEST(BroadcastParameters, GivesEveryRankTheRootsValues) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    for (const int root : {0, 2}) {
      std::vector<at::Tensor> tensors;
      int seed = 0;
      for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kLong,
                               at::kBool, at::kByte, at::kDouble}) {
        tensors.push_back(filled({2, 3, 4, 5}, dtype, 10 * seed++ + rank));
        tensors.push_back(filled({3, 2}, dtype, 10 * seed++ + rank).t());
        tensors.push_back(filled({}, dtype, 10 * seed++ + rank));
        tensors.push_back(filled({0}, dtype, 10 * seed++ + rank));
      }
      tensors[0] = tensors[0].contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
      broadcast_parameters(tensors, group, root);
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::vector<std::vector<int64_t>> sizes{{2, 3, 4, 5}, {3, 2}, {}, {0}};
        at::Tensor expected =
            filled(sizes[i % 4], tensors[i].scalar_type(), 10 * static_cast<int>(i) + root);
        if (i % 4 == 1) expected = expected.t();
        EXPECT_TRUE(tensors[i].equal(expected)) << i;
      }
      EXPECT_TRUE(tensors[0].is_contiguous(at::MemoryFormat::ChannelsLast));
    }
  });
}

TEST(BroadcastParameters, RefusesDifferentListsAndRoots) {
  on_ranks(2, [](int rank, const ProcessGroupPtr& group) {
    EXPECT_TRUE(raises<c10::ValueError>("root should be in [0, 2), got 2",
                                        [&] { broadcast_parameters({}, group, 2); }));
    EXPECT_TRUE(raises<c10::ValueError>("the same number of tensors, got from 0 to 1", [&] {
      broadcast_parameters(std::vector<at::Tensor>(rank, at::ones({1})), group);
    }));
  });
}

TEST(Distributed, NoticesThatTheRanksCallDifferentFunctions) {
  on_ranks(2, [](int rank, const ProcessGroupPtr& group) {
    const std::vector<at::Tensor> parameters{parameter_like({2})};
    EXPECT_TRUE(raises<c10::ValueError>("every rank should be in this call", [&] {
      rank == 0 ? average_gradients(parameters, group) : broadcast_parameters(parameters, group);
    }));
  });
}

/// A net with a branch on data: on some parts of the batch one layer has no gradient.
struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(4, 8));
    extra = register_module("extra", torch::nn::Linear(8, 8));
    last = register_module("last", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& input, bool with_extra) {
    at::Tensor hidden = first(input).tanh();
    if (with_extra) hidden = extra(hidden).relu();
    return last(hidden);
  }
  torch::nn::Linear first{nullptr}, extra{nullptr}, last{nullptr};
};

TEST(DataParallel, TrainsAsOneProcessOnTheJoinedBatch) {
  constexpr int kSteps = 20, kBatch = 6;
  const auto input = [](int step) { return filled({kBatch, 4}, at::kFloat, 1000 + step); };
  const auto loss_of = [](Net& net, const at::Tensor& part, bool with_extra) {
    return net.forward(part, with_extra).sub(part.sum(1, /*keepdim=*/true)).square().mean();
  };
  torch::manual_seed(0);
  const auto start = std::make_shared<Net>();
  const auto one = std::make_shared<Net>();
  const auto copy = [](const Net& from, Net& to) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < from.parameters().size(); ++i) {
      to.parameters()[i].copy_(from.parameters()[i]);
    }
  };
  copy(*start, *one);
  torch::optim::SGD optimizer(one->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    // The loss of the joined batch, part by part as each part takes its own branch.
    at::Tensor loss = at::zeros({});
    for (int rank = 0; rank < kRanks; ++rank) {
      const at::Tensor part = input(step).chunk(kRanks)[rank];
      loss = loss + loss_of(*one, part, (step + rank) % 2 == 0) / kRanks;
    }
    loss.backward();
    optimizer.step();
  }
  // Modules draw their parameters from the one default generator: not from several threads.
  std::vector<std::shared_ptr<Net>> nets(kRanks);
  for (auto& net : nets) net = std::make_shared<Net>();
  copy(*start, *nets[0]);
  on_ranks(kRanks, [&](int rank, const ProcessGroupPtr& group) {
    Net& net = *nets[rank];
    broadcast_parameters(net.parameters(), group);
    torch::optim::SGD own(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < kSteps; ++step) {
      own.zero_grad();
      loss_of(net, input(step).chunk(kRanks)[rank], (step + rank) % 2 == 0).backward();
      average_gradients(net.parameters(), group);
      own.step();
    }
  });
  for (const auto& net : nets) {
    for (size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(net->parameters()[i].allclose(one->parameters()[i], 1e-4, 1e-6)) << i;
      EXPECT_TRUE(net->parameters()[i].equal(nets[0]->parameters()[i])) << i;
    }
  }
}

TEST(MakeProcessGroup, RefusesWrongArguments) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto make = [&](int rank, int size, int milliseconds) {
    return [=] { make_process_group(store, rank, size, std::chrono::milliseconds(milliseconds)); };
  };
  EXPECT_TRUE(raises<c10::ValueError>("rank should be in [0, 2), got 2", make(2, 2, 100)));
  EXPECT_TRUE(raises<c10::ValueError>("rank should be in [0, 2), got -1", make(-1, 2, 100)));
  EXPECT_TRUE(raises<c10::ValueError>("size should be 1 or more, got 0", make(0, 0, 100)));
  EXPECT_TRUE(raises<c10::ValueError>("timeout should be > 0 ms, got 0", make(0, 1, 0)));
  EXPECT_TRUE(raises<c10::ValueError>("store is null", [] { make_process_group({}, 0, 1); }));
}

TEST(MakeProcessGroup, NamesTheVariableThatIsWrong) {
  const auto make = [] { make_process_group(std::chrono::milliseconds(100)); };
  EXPECT_TRUE(raises<c10::ValueError>("MASTER_ADDR is not set in the environment", make));
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "none", 1);
  EXPECT_TRUE(raises<c10::ValueError>(
      "MASTER_PORT should be an integer from 1 to 65535, got 'none'", make));
  setenv("MASTER_PORT", "29500", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("RANK", "2", 1);
  EXPECT_TRUE(raises<c10::ValueError>("RANK should be an integer from 0 to 1, got '2'", make));
}

}  // namespace
}  // namespace scramjet::amp

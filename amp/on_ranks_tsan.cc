// libtorch is not built with the thread sanitizer, which therefore sees the memory that Gloo's
// thread frees and the locks it destroys, but neither the atomics nor the futexes that order them.
// Reports with libtorch's code on a stack are left out of the tests on ranks; those that have our
// code alone on both stacks are not. at::Context::hasCUDA is inline, and its other half is in
// libtorch.

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:libtorch_cpu.so\n"
         "race:libc10.so\n"
         "race:^at::Context::hasCUDA\n";
}
#endif

"""cpu_kernel: one source file, compiled once for each instruction set that ATen chooses between at run time."""

# The flags ATen itself compiles its kernels with. No contraction: a fused multiply-add rounds
# once where eager rounds twice.
_CAPABILITIES = {
    "DEFAULT": [],
    "AVX2": ["-mavx2", "-mfma", "-mf16c"],
    "AVX512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx2", "-mfma", "-mf16c"],
}

def cpu_kernel(name, srcs, hdrs, deps = []):
    """Builds `srcs` for baseline x86-64, AVX2 and AVX-512 into the library `name`.

    The sources put what they define into `namespace CPU_CAPABILITY` (DEFAULT, AVX2 or AVX512) or
    an anonymous one, take raw pointers and include at::vec but no tensors: an inline function
    that two of the builds share would be merged by the linker, and might keep the AVX-512 body.
    The header declares the functions by SCRAMJET_DECLARE_CPU_KERNEL, and the caller chooses
    with `ops::for_this_cpu` (ops/cpu_capability.h).

    Args:
      name: the library, and the prefix of the three it is made of.
      srcs: the kernel's sources.
      hdrs: the header that declares the kernel.
      deps: libraries that the sources and the header need.
    """
    variants = []
    for capability, flags in _CAPABILITIES.items():
        variant = "{}_{}".format(name, capability.lower())
        native.cc_library(
            name = variant,
            srcs = srcs + hdrs,
            copts = flags + [
                "-DCPU_CAPABILITY=" + capability,
                "-DCPU_CAPABILITY_" + capability,
                "-ffp-contract=off",
                # Sleef's functions are libtorch's: call them without the detour by the PLT.
                "-fno-plt",
                # g++ 12 warns of its own AVX-512 header (GCC bug 105593).
                "-Wno-maybe-uninitialized",
                "-Wno-uninitialized",
            ],
            deps = deps,
        )
        variants.append(":" + variant)
    native.cc_library(
        name = name,
        hdrs = hdrs,
        deps = deps + variants,
    )

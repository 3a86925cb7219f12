"""Finds LLVM 19 by its llvm-config."""

_BUILD = """
cc_library(
    name = "llvm",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = [
        "-L{lib}",
        "-Wl,-rpath,{lib}",
        "-lLLVM-19",
    ],
    visibility = ["//visibility:public"],
)
"""

def _llvm_configure_impl(ctx):
    config = ctx.which("llvm-config-19")
    if not config:
        fail("no llvm-config-19 on PATH: install Debian's llvm-19-dev")
    include = ctx.execute([config, "--includedir"]).stdout.strip()
    lib = ctx.execute([config, "--libdir"]).stdout.strip()
    for folder in ("llvm", "llvm-c"):
        ctx.symlink(include + "/" + folder, "include/" + folder)
    ctx.file("BUILD", _BUILD.format(lib = lib))

llvm_configure = repository_rule(
    implementation = _llvm_configure_impl,
    environ = ["PATH"],
    local = True,
    doc = "@llvm//:llvm, LLVM 19 as installed.",
)

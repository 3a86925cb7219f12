"""Finds LLVM 19 by its llvm-config; its static libraries, so that what we ship needs no LLVM beside it."""

_BUILD = """
cc_library(
    name = "llvm",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

# What codegen/cpu uses: ORC and the code generator of the machine it is built on.
_COMPONENTS = ["orcjit", "native"]

# llvm-config names libxml2 and libz3 too, which these components do not call.
_COMPRESSION = ["libzstd.a", "libz.a"]

def _ask(ctx, config, *question):
    answer = ctx.execute([config] + list(question))
    if answer.return_code:
        fail("llvm-config-19 {}: {}".format(" ".join(question), answer.stderr))
    return answer.stdout.strip()

def _llvm_configure_impl(ctx):
    config = ctx.which("llvm-config-19")
    if not config:
        fail("no llvm-config-19 on PATH: install Debian's llvm-19-dev")
    include = _ask(ctx, config, "--includedir")
    for folder in ("llvm", "llvm-c"):
        ctx.symlink(include + "/" + folder, "include/" + folder)
    archives = _ask(ctx, config, "--link-static", "--libnames", *_COMPONENTS).split(" ") + _COMPRESSION

    # A program may have an LLVM of its own: ours is visible to us alone.
    linkopts = ["-L" + _ask(ctx, config, "--libdir"), "-Wl,--exclude-libs," + ":".join(archives)]
    linkopts += ["-l:" + archive for archive in archives]
    ctx.file("BUILD", _BUILD.format(linkopts = repr(linkopts + ["-ldl", "-lpthread", "-lm"])))

llvm_configure = repository_rule(
    implementation = _llvm_configure_impl,
    environ = ["PATH"],
    local = True,
    doc = "@llvm//:llvm, LLVM 19 as installed, linked statically.",
)

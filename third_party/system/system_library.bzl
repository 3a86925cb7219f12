"""A library that Debian installs under /usr, as a repository of its own."""

_BUILD = """
cc_library(
    name = "{name}",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _system_library_impl(ctx):
    for header in ctx.attr.headers:
        folder = ctx.path("/usr/include/" + header)
        if not folder.exists:
            fail("no /usr/include/{}: install Debian's {}".format(header, ctx.attr.apt_package))
        ctx.symlink(folder, "include/" + header)
    ctx.file("BUILD", _BUILD.format(
        name = ctx.name,
        linkopts = repr(["-l" + library for library in ctx.attr.libraries]),
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "apt_package": attr.string(mandatory = True, doc = "Debian's package, named in the error."),
        "headers": attr.string_list(mandatory = True, doc = "folders under /usr/include"),
        "libraries": attr.string_list(doc = "names for -l"),
    },
    local = True,
    doc = "@NAME//:NAME, found under /usr, or an error that names the package to install.",
)

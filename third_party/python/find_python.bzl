"""Which Python to use: $SCRAMJET_PYTHON, else the checkout's .venv."""

def find_python(ctx):
    """Returns the path of the Python interpreter as a string, or None.

    `.venv` is resolved to the environment it links to, so that checkouts which share an environment
    have the same paths in their commands, and so share Bazel's cache.

    Args:
      ctx: the repository_ctx.
    """
    python = ctx.os.environ.get("SCRAMJET_PYTHON", "")
    if python:
        if not ctx.path(python).exists:
            fail("SCRAMJET_PYTHON is {}, which does not exist: set it to a Python's full path".format(python))
        return python

    # Other requirements are another environment: look again when the files change.
    for requirements in ("requirements.txt", "requirements-nodeps.txt"):
        ctx.path(Label("//tools/setup:" + requirements))
    environment = ctx.path(Label("//:WORKSPACE")).dirname.get_child(".venv")
    if not environment.exists:
        return None
    return str(environment.realpath.get_child("bin").get_child("python"))

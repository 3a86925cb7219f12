"""Which Python to use: $SCRAMJET_PYTHON, else the checkout's .venv."""

def find_python(ctx):
    """Returns the path of the Python interpreter as a string, or None.

    Args:
      ctx: the repository_ctx.
    """
    python = ctx.os.environ.get("SCRAMJET_PYTHON", "")
    if not python:
        python = str(ctx.path(Label("//:WORKSPACE")).dirname.get_child(".venv").get_child("bin").get_child("python"))
    return python if ctx.path(python).exists else None

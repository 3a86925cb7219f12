"""compile, explain: TorchScript modules made faster."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, Optional, Sequence

import torch


def compile(
    module: torch.jit.ScriptModule,
    *,
    fullgraph: bool = False,
    dynamic: bool = True,
    mode: str = "default",
    freeze: bool = False,
    fast_math: bool = False,
    round_like_eager: bool = True,
    async_: bool = False,
    skip_passes: Sequence[str] = (),
    rewrite_budget: Optional[int] = None,
    autocast: Optional[torch.dtype] = None,
    autocast_device: str = "cpu",
    autocast_overrides: Mapping[str, str] = MappingProxyType({}),
) -> torch.jit.ScriptModule:
    """Returns a module that answers what `module` answers, faster.

    Parameters and buffers are shared with `module`. The result is a plain TorchScript module: save it with
    torch.jit.save, and load it wherever libscramjet.so is loaded.

    Args:
      module: from torch.jit.script, torch.jit.trace or torch.jit.load.
      fullgraph: raise ValueError, with the report, where a pointwise op or a call stays outside the fused groups.
      dynamic: one machine code for all sizes; False is not available yet.
      mode: "default"; others are not available yet.
      freeze: fold parameters into the graph first (torch.jit.freeze); the module must be in eval mode.
      fast_math: allow fused multiply-add and re-association.
      round_like_eager: half and bfloat16: round after each op, as eager does; False rounds a group's outputs only.
      async_: compile in the background; not available yet.
      skip_passes: names of passes to leave out, to find the cause of a wrong answer.
      rewrite_budget: the number of rewrites allowed, for the same; None for no limit.
      autocast: torch.bfloat16 or torch.float16: write mixed precision into the graph. The answers are those of
        `module` under torch.autocast; with `freeze` the weights are cast once, here.
      autocast_device: "cpu" or "cuda", as torch.autocast's first argument.
      autocast_overrides: by op and overload ("aten::softmax.int"), in place of torch's lists: "fp32",
        "lower_precision_fp" or "none".

    Raises:
      TypeError: `module` is not a scripted module.
      ValueError: an option that is not available, or what `fullgraph` finds.
    """
    _check_scripted("compile", module)
    compiled = torch.ops.scramjet._compile(
        module, fullgraph, dynamic, mode, freeze, fast_math, round_like_eager, async_, list(skip_passes), rewrite_budget,
        autocast, autocast_device, dict(autocast_overrides),
    )
    return torch.jit._recursive.wrap_cpp_module(compiled)


def explain(compiled: torch.jit.ScriptModule) -> str:
    """What compile() did to a compiled module: what was fused, what was not and why, and what ran as machine code."""
    _check_scripted("explain", compiled)
    return torch.ops.scramjet._explain(compiled)


def compilations() -> int:
    """Kernels compiled to machine code in this process so far."""
    return torch.ops.scramjet._compilations()


def _check_scripted(function: str, module: object) -> None:
    if not isinstance(module, torch.jit.ScriptModule):
        raise TypeError(
            f"scramjet.{function}: argument 'module' must be a torch.jit.ScriptModule "
            f"(torch.jit.script(module) makes one), got {type(module).__name__}"
        )

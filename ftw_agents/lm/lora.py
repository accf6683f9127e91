"""LoRA: small trained matrices beside the frozen weights of a model.

The layers are put into the model itself, so that it stays the class it was. What is saved as
"the model" is always merged; the adapters are kept beside it in PEFT's own format, because
only with them can a run go on exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ftw_agents.config import LoRAConfig
from ftw_envs.streams import stream_key

_ADAPTER = "default"  # PEFT's name of the only adapter
_PREFIX = "base_model.model."  # what PEFT's files put before the name of a weight


def add_adapters(model: Any, config: LoRAConfig, seed: int) -> None:
    """Freezes a model and gives it adapters that change nothing yet.

    Args:
        model: a Hugging Face causal language model, changed in place.
        config: see there.
        seed: names the adapters' random half; the other half is 0.

    Raises:
        ValueError: a setting that does not fit the model, or peft is not installed.
    """
    config.check()
    if has_adapters(model):
        raise ValueError("the model has adapters already")
    import peft
    from peft.tuners.lora import LoraLayer
    from transformers.pytorch_utils import Conv1D

    names = [x.strip() for x in config.targets.split(",")]
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules="all-linear" if names == ["all-linear"] else names,
        # GPT-2's layers hold their matrices the other way round.
        fan_in_fan_out=any(isinstance(m, Conv1D) for m in model.modules()),
        task_type="CAUSAL_LM",
    )
    ends = {id(model.get_input_embeddings()), id(model.get_output_embeddings())}
    ending = tuple(names)
    for name, module in model.named_modules():
        if id(module) in ends and name.endswith(ending):
            raise ValueError(f"lora.targets must leave out {name}: it is an end of the model")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key("lora", seed) & (2**63 - 1))
        try:
            peft.inject_adapter_in_model(settings, model, adapter_name=_ADAPTER)
        except ValueError as e:
            kinds = (torch.nn.Linear, Conv1D)
            linear = {n.split(".")[-1] for n, m in model.named_modules() if isinstance(m, kinds)}
            raise ValueError(
                f"lora.targets is {config.targets!r}; it must be all-linear or some of "
                f"{','.join(sorted(linear))} ({str(e).splitlines()[0]})"
            ) from None
    assert any(isinstance(m, LoraLayer) for m in model.modules())
    model.eval()


def has_adapters(model: Any) -> bool:
    """Whether `add_adapters` was here."""
    return hasattr(model, "peft_config")


def merged_state(model: Any) -> dict[str, Tensor]:
    """The weights of the plain model that does what the model with adapters does."""
    from peft.tuners.lora import LoraLayer

    state = {
        name.replace(".base_layer.", "."): value
        for name, value in model.state_dict().items()
        if ".lora_" not in name
    }
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLayer):
            key = f"{name}.weight"
            state[key] = state[key] + layer.get_delta_weight(_ADAPTER)
    return state


def save_adapters(model: Any, folder: Path) -> None:
    """Writes the adapters so that PEFT and `load_adapters` can read them."""
    folder.mkdir(parents=True, exist_ok=True)
    model.peft_config[_ADAPTER].save_pretrained(folder)
    weights = {_file_name(n): p.detach().contiguous() for n, p in _adapters(model).items()}
    save_file(weights, folder / "adapter_model.safetensors")


def load_adapters(model: Any, folder: Path) -> None:
    """Gives a model with adapters the ones that `save_adapters` wrote."""
    saved = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, parameter in _adapters(model).items():
            parameter.copy_(saved[_file_name(name)])


def _adapters(model: Any) -> dict[str, torch.nn.Parameter]:
    return {n: p for n, p in model.named_parameters() if ".lora_" in n}


def _file_name(name: str) -> str:
    return _PREFIX + name.replace(f".{_ADAPTER}.", ".")

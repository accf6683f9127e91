"""Reads a model and its tokenizer: from a folder, from the Hugging Face hub, from a GGUF file."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

_HUB_SECONDS = 10.0  # how long the hub is waited for


def read_model(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Model in float32, for evaluation, and tokenizer.

    Args:
        path: a folder, a .gguf file, or a hub name.

    Raises:
        ValueError: there is no causal language model at `path`; says what is there instead.
    """
    name = os.fspath(path)
    folder = name
    options: dict[str, Any] = {}
    if name.endswith(".gguf"):
        folder, options = _gguf(Path(name))
    elif not Path(name).is_dir():
        _find_on_hub(name)
    weights = {"dtype": torch.float32, "output_loading_info": True, **options}
    if options:
        # Else the model counts as quantised, and can neither be saved nor trained.
        weights["quantization_config"] = GgufConfig(dequantize=True)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model, info = AutoModelForCausalLM.from_pretrained(folder, **weights)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as e:
        why = " ".join(str(e).split())
        raise ValueError(f"{name}: not a model ({why[:200]})") from None
    if getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError(
            f"{name}: adapters, not a model; merge them first (PEFT's merge_and_unload)"
        )
    if info["missing_keys"]:
        raise ValueError(
            f"{name}: not a causal language model, or not all of one "
            f"(no weights for {min(info['missing_keys'])})"
        )
    # Weights lie as in the file, at odd addresses, and sums come out differently there: a run
    # that is resumed would not be, to the bit, the run that was not stopped.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model.eval(), tokenizer


def _gguf(file: Path) -> tuple[str, dict[str, Any]]:
    """Folder and options with which transformers reads a GGUF file."""
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    if find_spec("gguf") is None:
        raise ValueError("a .gguf file needs the package gguf: pip install 'ftw-suite[gguf]'")
    return str(file.parent), {"gguf_file": file.name}


def _find_on_hub(name: str) -> None:
    """Refuses at once what is no hub name, and within seconds what the hub does not have.

    transformers itself asks again and again for each of a model's files.
    """
    begins = Path(name.split("/")[0])  # an organisation, or a folder
    try:
        validate_repo_id(name)
        is_path = begins.exists()
    except HFValidationError:
        is_path = True
    if is_path:
        what = "a file, not a folder" if Path(name).exists() else "no such folder"
        raise ValueError(f"{name}: not a model ({what}, and not a hub name like org/model)")
    if constants.is_offline_mode() or isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        HfApi().model_info(name, timeout=_HUB_SECONDS)
    except RepositoryNotFoundError:
        raise ValueError(
            f"{name}: not a model (no such folder, and the hub has none of that name that you "
            "may read; private and gated ones need `hf auth login`)"
        ) from None
    except Exception as e:  # of whichever HTTP library the hub's client stands on
        raise ValueError(
            f"{name}: not a model (no such folder, not in the hub's cache, and the hub cannot be "
            f"asked: {' '.join(str(e).split())[:200]})"
        ) from None

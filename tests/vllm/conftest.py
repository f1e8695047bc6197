"""The model that all vLLM tests run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def settings() -> dict[str, Any]:
    """A config of the engine: small prefix cache blocks and no compilation, for a quick start."""
    weights = os.environ.get("DHD_VLLM_WEIGHTS")
    assert weights, "run these tests with: make test-vllm"
    return {
        "kind": "vllm", "model": str(Path(weights).resolve()), "name": "smollm2-135m-instruct", "dtype": "bfloat16",
        "max_model_len": 1024, "block_size": 32, "batch": 16, "enforce_eager": True,
    }  # fmt: skip

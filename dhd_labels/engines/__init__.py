"""Chat engines: one small protocol, one module an engine, each imported only when a config asks for it."""

from __future__ import annotations

from dhd_labels.config import EngineConfig, LlamaCppConfig, OpenAIConfig, RayConfig, VllmConfig
from dhd_labels.engines.base import ChatEngine


def open_engine(config: EngineConfig) -> ChatEngine:
    """Start the engine that a config names.

    Raises:
        DhdError: a package or a weights file is missing; the text has the line that installs it.
    """
    if isinstance(config, LlamaCppConfig):
        from dhd_labels.engines.llamacpp import LlamaCppEngine

        return LlamaCppEngine(config)
    if isinstance(config, VllmConfig):
        from dhd_labels.engines.vllm import VllmEngine

        return VllmEngine(config)
    if isinstance(config, OpenAIConfig):
        from dhd_labels.engines.openai import OpenAIEngine

        return OpenAIEngine(config)
    if isinstance(config, RayConfig):
        from dhd_labels.engines.ray import RayEngine

        return RayEngine(config)
    from dhd_labels.engines.scripted import ScriptedEngine

    return ScriptedEngine(config)

"""The alternatives: plain clients that send given requests and read the usage that the server reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import openai

from dhd_labels.config import OpenAIConfig
from dhd_labels.engines.base import ChatRequest
from dhd_labels.engines.chat_api import arguments_of
from tests.bench.vllm.workload import Usage


def one_after_another(requests: Sequence[ChatRequest], config: OpenAIConfig) -> Usage:
    """Send each request when the one before it is answered, as a script with a loop does."""
    with openai.OpenAI(base_url=config.base_url, api_key="none", max_retries=0, timeout=600) as client:
        answers = [client.chat.completions.create(**arguments_of(request, config)) for request in requests]
    return _usage(answers)


def side_by_side(requests: Sequence[ChatRequest], config: OpenAIConfig) -> Usage:
    """Send the requests in their order, `concurrency` of them at any time."""

    async def all_of_them() -> list[Any]:
        places = asyncio.Semaphore(config.concurrency)
        async with openai.AsyncOpenAI(base_url=config.base_url, api_key="none", max_retries=0, timeout=600) as client:

            async def one(request: ChatRequest) -> Any:
                async with places:
                    return await client.chat.completions.create(**arguments_of(request, config))

            return await asyncio.gather(*map(one, requests))

    return _usage(asyncio.run(all_of_them()))


def _usage(answers: Sequence[Any]) -> Usage:
    usages = [answer.usage for answer in answers]
    return Usage(
        len(usages),
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.prompt_tokens_details.cached_tokens or 0 for usage in usages),
        sum(usage.completion_tokens for usage in usages),
    )

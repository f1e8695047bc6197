"""Any server that speaks the OpenAI chat API: vLLM, SGLang, llama.cpp, or a hosted one.

An event loop in a thread of its own makes the calls, up to `concurrency` side by side and fewer while the server says
that it is busy. The caller's thread pulls requests whenever there is room for one, and reads a plan ahead by no more
than the few problems that warm up (`warming`).
"""

from __future__ import annotations

import asyncio
import difflib
import queue
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import openai

from dhd_labels.config import OpenAIConfig
from dhd_labels.engines.address import NO_KEY, base_url_of, key_of, place
from dhd_labels.engines.background import BackgroundLoop, Tasks
from dhd_labels.engines.base import ChatReply, ChatRequest, EngineIdentity, ReplyStatus, Token
from dhd_labels.engines.chat_api import arguments_of, decode, reply_of
from dhd_labels.engines.http_faults import Fault, fault_of
from dhd_labels.engines.http_retry import LOG, Clock, Retry, SystemClock, Throttle
from dhd_labels.engines.http_stops import Stops, stop_of
from dhd_labels.engines.server_says import ServerWatch, signed
from dhd_labels.engines.token_limit import TokenLimit
from dhd_labels.engines.warming import Warming
from dhd_labels.errors import EndpointError, did_you_mean

Settled: TypeAlias = tuple[tuple[Token, ChatRequest], ChatReply | Fault, int]
"""A request, what became of it, and how many of its tries had an answer that never came whole."""
Finished: TypeAlias = queue.SimpleQueue[Settled[Token]]
_CONNECT_S = 10.0
_SHOWN_MODELS = 20
_NO_LIST = (*range(300, 400), 403, 404, 405)


class OpenAIEngine:
    """Implements `ChatEngine` on the `openai` client, whose own retries are off."""

    def __init__(self, config: OpenAIConfig, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        url, key = base_url_of(config), key_of(config)
        self._config, self._place = config, place(url)
        self._limit = (
            TokenLimit(config.tokenizer, config.revision, config.max_model_len)
            if config.tokenizer and config.max_model_len
            else None
        )
        self._identity = EngineIdentity(
            "openai", "chat-completions", config.model, config.revision, served_as=config.served_as or ""
        )
        self._client = openai.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=url,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),  # prompts go where the config says
            timeout=openai.Timeout(config.timeout_s, connect=min(config.timeout_s, _CONNECT_S)),
        )
        headers = (key, self._client.organization, self._client.project)
        self._secrets = tuple(value for value in headers if value and len(value) >= 4)
        names = [name for name in (config.model, config.served_as) if name]
        self._watch = ServerWatch(self._list_models, names, clock.now, self._secrets)
        self._throttle = Throttle(config.concurrency, clock)
        self._retry = Retry(
            config.max_tries,
            config.max_wait_s,
            self._throttle,
            clock,
            self._place,
            self._fault,
        )
        self._answered: set[str] = set()  # settings of requests that were answered, in any stream
        self._background = BackgroundLoop(f"calls to {self._place}")
        try:
            self._check_model(self._background.run(self._retry.run(self._list_models, "the list of models")))
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> EngineIdentity:
        """API, model and declared revision. Not the address: a server that moves answers as before."""
        return self._identity

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests, up to `concurrency` side by side.

        Raises:
            EndpointError: bad key, unknown model or route, bad certificate, or the first calls were all refused alike.
            EngineStoppedError: the server is gone. Before either, every finished reply was handed over.
            DhdError: a request has a grammar and `grammar_style` is not set.
        """
        source: Warming[Token] = Warming(requests, self._config.concurrency, warm_up=self._config.warm_up)
        finished: Finished[Token] = queue.SimpleQueue()
        tasks: Tasks = set()
        running = 0
        stops = Stops(self._config, self._place)
        try:
            while True:
                replies: list[tuple[Token, ChatReply]] = []
                limit = self._throttle.limit
                while running < limit and len(replies) < limit and (item := source.take()):
                    too_long = self._too_long(item[1])
                    if too_long:
                        replies.append((item[0], too_long))
                        source.settled(item[1])
                    else:
                        arguments = arguments_of(item[1], self._config)
                        self._background.start(self._serve(item, arguments, finished), tasks)
                        running += 1
                if running and (not replies or not finished.empty()):
                    outcomes = _take(finished)
                    running -= len(outcomes)
                    for (token, request), found, unseen in outcomes:
                        source.settled(request)
                        if reply := self._settle(request, found, stops):
                            replies.append((token, replace(reply, unseen=unseen)))
                if replies:
                    yield replies
                stops.raise_if_hopeless()
                if not replies and not running:
                    return
        finally:
            self._background.cancel(tasks)

    def close(self) -> None:
        """Close the connections and end the thread."""
        self._background.close(self._client.close)

    async def _serve(
        self, item: tuple[Token, ChatRequest], arguments: dict[str, Any], finished: Finished[Token]
    ) -> None:
        request, unseen = item[1], 0

        def classify(error: Exception) -> Fault:
            nonlocal unseen
            fault = self._fault(error)
            unseen += fault.unseen
            return fault

        async def attempt() -> ChatReply:
            entry = await self._watch.entry()
            async with asyncio.timeout(self._config.timeout_s):
                answer = await self._client.chat.completions.with_raw_response.create(**arguments)
            body = decode(answer.http_response.content)
            said = self._watch.describe(entry, body, answer.http_response.headers)
            return signed(reply_of(body, self._identity.comes_back, request.n), said)

        label = f"a call of {request.affinity} (seed {request.seed})"
        found = await replace(self._retry, classify=classify).run(attempt, label)
        finished.put((item, found, unseen))

    def _fault(self, error: Exception) -> Fault:
        fault = fault_of(error, self._secrets)
        self._watch.doubt(fault)
        return fault

    def _too_long(self, request: ChatRequest) -> ChatReply | None:
        found = self._limit.excess(request.turns) if self._limit else None
        return self._failure("prompt_too_long", found[1], found[0]) if found else None

    def _settle(self, request: ChatRequest, outcome: ChatReply | Fault, stops: Stops) -> ChatReply | None:
        """Return the reply of a call, or None for one that is not to blame for its failure and is asked again later."""
        settings = repr(replace(request, turns=(), seed=0, affinity=""))
        answered = settings in self._answered
        stops.note(outcome, answered=answered)
        if isinstance(outcome, ChatReply):
            self._answered.add(settings)
            return outcome
        if outcome.kind == "fatal":
            return None
        if outcome.kind == "too_long":
            return self._failure("prompt_too_long", outcome.reason)
        # Refused although others were answered: it is this prompt. Before that it may be a setting, to be corrected.
        this_prompt = outcome.kind == "refused" and answered
        return self._failure("refused" if this_prompt else "server_error", outcome.reason)

    async def _list_models(self) -> Any:
        async with asyncio.timeout(self._config.timeout_s):
            answer = await self._client.models.with_raw_response.list()
        return decode(answer.http_response.content)

    def _check_model(self, answer: Any) -> None:
        """Refuse a model that the server does not list, if it lists any."""
        self._watch.start(answer)
        if isinstance(answer, Fault):
            self._refuse_start(answer)
            return
        listed = _model_ids(answer)
        wanted = {self._config.model, self._config.served_as}
        if listed and not wanted & listed:
            model = self._config.model
            shown = difflib.get_close_matches(model, listed, _SHOWN_MODELS, 0.3) or sorted(listed)[:_SHOWN_MODELS]
            raise EndpointError(
                f"The 'model' of engine 'openai' must be one that {self._place} serves, got {model!r}. "
                + did_you_mean(model, shown)
            )

    def _refuse_start(self, fault: Fault) -> None:
        """Stop over what would stop every call too. A list that is not offered, or not to this key, is no reason."""
        if fault.kind == "away" or (fault.kind == "fatal" and fault.status not in _NO_LIST):
            raise stop_of(fault, self._config, self._place)
        LOG.info("The models of %s are not listed (%s); the first call will tell", self._place, fault.reason)

    def _failure(self, status: ReplyStatus, error: str, prompt_tokens: int | None = None) -> ChatReply:
        return ChatReply(status, "", None, None, prompt_tokens, None, None, self._identity.comes_back, error)


def _take(finished: Finished[Token]) -> list[Settled[Token]]:
    """Wait for one outcome and take all that are there."""
    outcomes = [finished.get()]
    while not finished.empty():
        outcomes.append(finished.get())
    return outcomes


def _model_ids(answer: Any) -> set[str]:
    """Return the ids of a list of models, or none when it is not one. Some servers write `models/` before each."""
    items = answer.get("data") if isinstance(answer, dict) else None
    found = {item["id"] for item in items or [] if isinstance(item, dict) and isinstance(item.get("id"), str)}
    return found | {name.removeprefix("models/") for name in found}

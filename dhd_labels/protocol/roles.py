"""The calls of each role: what is asked, under which ticket, and which replies count as answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatReply
from dhd_labels.protocol import prompts
from dhd_labels.protocol.masking import shown_messages
from dhd_labels.protocol.parse import parse_message, parse_roles
from dhd_labels.protocol.reasoning import split_reasoning
from dhd_labels.records import Pool, Replay, Role, VisibleProblem
from dhd_labels.replay.calls import Call
from dhd_labels.replay.plan import derive_seed, replay_seed


def recruiter_ticket(problem_id: str) -> str:
    """Return the ticket of a problem's recruiter call."""
    return f"{problem_id}/recruiter"


def hypothesizer_ticket(problem_id: str, slot: int) -> str:
    """Return the ticket of the message in a slot."""
    return f"{problem_id}/hypothesizer/{slot}"


def replay_ticket(replay: Replay) -> str:
    """Return the ticket of a replay's call: (role, pool, order, block, call, draw), never a place in a list."""
    block = "-" if replay.block is None else replay.block
    part = "block" if replay.mask is None else f"mask-{replay.mask.target}-{replay.mask.condition}/repeat"
    call = f"{part}-{block}/{replay.call}/draw-{replay.draw}"
    return f"{replay.problem_id}/{replay.role}/{replay.pool_id[:16]}/{replay.order}/{call}"


def recruiter_call(config: RunConfig, problem: VisibleProblem) -> Call:
    """Return the call that names the five roles."""
    role = config.roles.recruiter
    prompt = prompts.load_prompt(role.prompt)
    return Call(
        ticket=recruiter_ticket(problem.problem_id),
        role="recruiter",
        problem_id=problem.problem_id,
        turns=prompts.recruiter_turns(prompt, problem),
        decoding=role,
        grammar=prompts.grammar_for(role.grammar, problem),
        json_schema=prompts.json_schema_for(role.json_schema, prompt),
        seed=partial(derive_seed, config.seed, problem.problem_id, "recruiter"),
        accepts=_has_roles,
    )


def hypothesizer_calls(config: RunConfig, problem: VisibleProblem, roles: Sequence[Role]) -> list[Call]:
    """Return the five independent calls that write the messages."""
    decoding = config.roles.hypothesizer
    prompt = prompts.load_prompt(decoding.prompt)
    return [
        Call(
            ticket=hypothesizer_ticket(problem.problem_id, slot),
            role="hypothesizer",
            problem_id=problem.problem_id,
            turns=prompts.hypothesizer_turns(prompt, problem, role),
            decoding=decoding,
            grammar=prompts.grammar_for(decoding.grammar, problem),
            json_schema=prompts.json_schema_for(decoding.json_schema, prompt),
            seed=partial(derive_seed, config.seed, problem.problem_id, "hypothesizer", slot),
            accepts=partial(_is_message, slot=slot, role=role),
        )
        for slot, role in enumerate(roles)
    ]


def replay_call(config: RunConfig, problem: VisibleProblem, pool: Pool, replay: Replay) -> Call:
    """Return the integrator call of a replay, showing the messages of its arm and no others."""
    decoding = config.role(replay.role)
    turns = prompts.integrator_turns(
        prompts.load_prompt(decoding.prompt), problem, shown_messages(pool, replay), config.protocol.renumber
    )
    return Call(
        ticket=replay_ticket(replay),
        role=replay.role,
        problem_id=problem.problem_id,
        turns=turns,
        decoding=decoding,
        grammar=prompts.grammar_for(decoding.grammar, problem),
        seed=partial(replay_seed, config, replay),
        accepts=is_final,
    )


def _has_roles(reply: ChatReply) -> bool:
    return reply.status == "ok" and parse_roles(reply.text)[1] is None


def _is_message(reply: ChatReply, slot: int, role: Role) -> bool:
    return parse_message(reply, slot, role).status == "ok"


def is_final(reply: ChatReply) -> bool:
    """Truncation, an overlong and a refused prompt are final: asking again gives the same. No final part is not."""
    if reply.status == "ok":
        return bool(split_reasoning(reply.text).final.strip())
    return reply.status in ("truncated", "prompt_too_long", "refused")

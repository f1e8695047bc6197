"""The fewest prompt tokens that a prefix cache of blocks can leave to compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def fewest_computed_tokens(prompts: Iterable[Sequence[int]], block: int) -> int:
    """Return a lower bound on the prompt tokens computed for all prompts, whatever their order and the cache's size.

    A cache holds whole blocks of `block` tokens, each under all that stands before it: a trie. The last token of a
    prompt is always computed, and with it the part after the last block boundary before it. Every other block is
    computed at least once, unless it is the end of a prompt that is a whole number of blocks long: that was counted.
    A cache that never forgets, with the shorter prompts first, meets the bound. What is generated is not counted, nor
    taken to continue another prompt.
    """
    tails, shared, ends = 0, set[tuple[int, ...]](), set[tuple[int, ...]]()
    for prompt in map(tuple, prompts):
        if not prompt:
            continue
        kept = (len(prompt) - 1) // block
        tails += len(prompt) - kept * block
        shared |= {prompt[: end * block] for end in range(1, kept + 1)}
        if len(prompt) % block == 0:
            ends.add(prompt)
    return tails + block * len(shared - ends)

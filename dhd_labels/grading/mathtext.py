"""Read a mathematical answer (LaTeX or plain) into a tree, as a whole or not at all.

A recursive-descent reader of the notation that answers use. What it does not know, what is ambiguous ("1/2n",
"2 1/2", "2^3^4") and what is longer or deeper than an answer can be raises `UnreadableError`; no part of a text is ever
skipped, and nothing is evaluated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from dhd_labels.grading.notation import FUNCTIONS, GREEK, RELATIONS, Node, Token, UnreadableError, tokens

MAX_DEPTH = 24
"""Nested groups."""

_SEVERAL = {"min", "max", "gcd", "lcm"}
_CLOSING = {"(": ")", "[": "]", r"\{": r"\}", "{": "}", "|": "|", r"\lvert": r"\rvert", r"\lfloor": r"\rfloor",
            r"\lceil": r"\rceil", r"\langle": r"\rangle", r"\lbrace": r"\rbrace"}  # fmt: skip
_FACTORS = {r"\frac", r"\sqrt", r"\binom", r"\dbinom", r"\tbinom", r"\sum", r"\prod", r"\lfloor", r"\lceil", r"\lvert",
            r"\langle", r"\{"}  # fmt: skip
# "2.(10)" repeats and "1e-3" is a power of ten to some, a product to others.
_TWO_READINGS = re.compile(
    r"\d\.\d*\s?\\?\(\d+\\?\)|\d\.\s?\\?\(|\d(?:[eE]|\s?\\(?:mathrm|text|rm)\s?\{\s*[eE]\s*\})\{?[-+\u2212]?\{?\d"
)
_FUNCTION_NAMES = frozenset("fghFGPQ")
_FACTOR_NAMES = frozenset("abcdeijklmnrstxyzABDEKLMNRV") | {r"\pi"}
"""Symbols that multiply a sum in brackets behind them; before anything else in brackets they may be functions too."""


def read_math(text: str, thousands: bool = True) -> Node:
    """Read an answer; a top-level list becomes a node of kind "list".

    Args:
        text: the answer, dressed or not.
        thousands: whether "1,234" outside of brackets is one number.

    Raises:
        UnreadableError: not readable as a whole; the reason is in the message.
    """
    if found := _TWO_READINGS.search(text):
        raise UnreadableError(f"{found[0][:20]!r} may be a repeating decimal, a power of ten or a product")
    return _Reader(tokens(text, thousands)).answer()


class _Reader:
    """One pass over the tokens."""

    def __init__(self, pieces: list[Token]) -> None:
        self._tokens = pieces
        self._at = 0
        self._depth = 0
        self._open_bars = 0
        self._joints: set[str] = set()
        self._products: dict[int, bool] = {}

    # What comes next.

    @property
    def _next(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else "end"

    def _take(self, *wanted: str) -> bool:
        if self._next and self._next in wanted:
            self._at += 1
            return True
        return False

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            raise UnreadableError(f"expected {wanted!r}, got {self._next[:20]!r}")

    # Lists, relations.

    def answer(self) -> Node:
        """Read everything."""
        if not self._tokens:
            raise UnreadableError("nothing to read")
        found = self._items()
        if self._kind != "end":
            raise UnreadableError(f"stopped at {self._next[:20]!r}")
        if len(found) == 1:
            return found[0]
        # All joined by "or": alternatives. Commas and "and" may also mean conditions that hold together.
        return Node("list", tuple(found), "or" if self._joints == {"or"} else "")

    def _items(self) -> list[Node]:
        found = [self._relation()]
        joints: set[str] = set()
        while joint := self._separator():
            joints.add(joint)
            found.append(self._relation())
        self._joints = joints
        return found

    def _separator(self) -> str:
        """Take what separates two items; return its word if there is one, else a comma, or nothing."""
        taken = ""
        while self._kind == "separator" or self._next in (",", ";"):
            taken = self._next if self._kind == "separator" else taken or ","
            self._at += 1
        return taken

    def _relation(self) -> Node:
        sides, signs = [self._union()], []
        while self._next in RELATIONS:
            signs.append(RELATIONS[self._next])
            self._at += 1
            sides.append(self._union())
        return Node("relation", tuple(sides), " ".join(signs)) if signs else sides[0]

    def _union(self) -> Node:
        parts = [self._sum()]
        while self._take(r"\cup"):
            parts.append(self._sum())
        return Node("union", tuple(parts)) if len(parts) > 1 else parts[0]

    # Arithmetic.

    def _sum(self) -> Node:
        left = self._signed()
        while self._next in ("+", "-", r"\pm", r"\mp"):
            sign = self._next
            self._at += 1
            right = self._product()
            left = Node({"+": "add", "-": "sub"}.get(sign, "pm"), (left, right), sign)
        return left

    def _signed(self) -> Node:
        if self._next in (r"\pm", r"\mp"):
            sign = self._next
            self._at += 1
            return Node("pm", (Node("num", value=Fraction(0), name="0"), self._product()), sign)
        return self._product()

    def _product(self) -> Node:
        if self._take("+"):
            self._no_sign()
        elif self._take("-"):
            self._no_sign()
            return Node("neg", (self._product(),))
        left = self._power()
        divided = False
        while True:
            if self._take("*", r"\cdot", r"\times", r"\ast"):
                left, divided = Node("mul", (left, self._factor())), False
            elif self._take("/", r"\div"):
                left, divided = Node("div", (left, self._factor())), True
            elif self._starts_factor():
                if divided:
                    raise UnreadableError("a product after a slash is ambiguous")
                if self._kind == "number" or self._mixed(left):
                    raise UnreadableError("a number after a factor is ambiguous")
                left = Node("mul", (left, self._power()))
            else:
                return left

    def _mixed(self, left: Node) -> bool:
        """Whether "2\\frac{1}{2}" comes next, which means a sum to some and a product to others."""
        fraction = [t.text for t in self._tokens[self._at : self._at + 3]]
        top = next((text for text in fraction[1:] if text != "{"), "") if fraction[0] == r"\frac" else ""
        return left.kind == "num" and top.isdigit() and left.value is not None and left.value.denominator == 1

    def _factor(self) -> Node:
        return Node("neg", (self._power(),)) if self._take("-") else self._power()

    def _no_sign(self) -> None:
        if self._next in ("+", "-"):
            raise UnreadableError("two signs in a row")

    def _starts_factor(self) -> bool:
        if self._kind in ("number", "word") or self._next in ("(", "[", "{", "|"):
            return not (self._next == "|" and self._open_bars)
        starts = self._next in GREEK or self._next in _FACTORS or self._next[1:] in FUNCTIONS
        return self._kind == "command" and starts

    def _power(self) -> Node:
        base = self._postfix(self._primary())
        if not self._take("^"):
            return base
        if self._degree_sign():
            return self._no_more_powers(Node("degree", (base,)))
        bare_one = self._next == "1"
        found = Node("pow", (base, self._script()))
        if bare_one and self._next == "/":
            raise UnreadableError("a fraction in an exponent without braces")
        return self._no_more_powers(self._postfix(found))

    def _degree_sign(self) -> bool:
        if self._take(r"\circ"):
            return True
        if [t.text for t in self._tokens[self._at : self._at + 3]] == ["{", r"\circ", "}"]:
            self._at += 3
            return True
        return False

    def _no_more_powers(self, node: Node) -> Node:
        if self._next == "^":
            raise UnreadableError("two powers without brackets")
        return node

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._take("!"):
                if self._next == "!" or node.kind == "factorial":
                    raise UnreadableError("a double factorial")
                node = Node("factorial", (node,))
            elif self._take("%", r"\%"):
                node = Node("div", (node, Node("num", value=Fraction(100), name="100")))
            elif self._take("°"):
                node = Node("degree", (node,))
            else:
                return node

    def _script(self) -> Node:
        """Read an exponent or index: a group, or one sign and token."""
        if self._next == "{":
            return self._group()
        if self._take("-"):
            self._no_sign()
            return Node("neg", (self._script(),))
        if self._kind in ("number", "word") or self._next in GREEK:
            return self._primary(bare=True)
        if self._next in ("(", r"\frac", r"\sqrt"):
            return self._primary()
        raise UnreadableError(f"the exponent {self._next[:20]!r}")

    # Primaries.

    def _primary(self, bare: bool = False) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {MAX_DEPTH} levels")
        try:
            return self._read_primary(bare)
        finally:
            self._depth -= 1

    def _read_primary(self, bare: bool) -> Node:
        kind, text = self._kind, self._next
        if kind == "number":
            self._at += 1
            return self._number(text)
        if kind == "word" or text in GREEK:
            return self._symbol(bare)
        if text in _CLOSING:
            return self._bracket()
        if kind == "command" and text[1:] in FUNCTIONS:
            return self._function()
        readers = {r"\frac": self._fraction, r"\sqrt": self._root, r"\sum": self._series, r"\prod": self._series,
                   r"\binom": self._binomial, r"\dbinom": self._binomial, r"\tbinom": self._binomial}  # fmt: skip
        if text in readers:
            return readers[text]()
        if self._take(r"\emptyset", r"\varnothing"):
            return Node("set")
        raise UnreadableError(f"{text[:20]!r} where a value should be" if text else "it ends too early")

    def _number(self, text: str) -> Node:
        """Read a decimal, with a repeating part if a bar follows it."""
        if len(text) > 200:
            raise UnreadableError("a number of more than 200 digits")
        value = Fraction(text if not text.endswith(".") else text + "0")
        if "." in text and self._next in (r"\overline", r"\bar"):
            self._at += 1
            self._expect("{")
            digits = self._next
            if not digits.isdigit():
                raise UnreadableError("a bar over something else than digits")
            self._at += 1
            self._expect("}")
            places = len(text.partition(".")[2])
            value += Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)
            text = ""
        return Node("num", name=text, value=value)

    def _symbol(self, bare: bool) -> Node:
        name = self._next
        self._at += 1
        if bare:
            return Node("sym", name=name)
        if self._take("_"):
            name += "_" + self._index()
        if self._next == "'":
            raise UnreadableError("a prime")
        return Node("sym", name=name) if self._next != "(" or self._multiplies(name) else self._applied(name)

    def _applied(self, name: str) -> Node:
        inside = self._bracket()
        return Node("apply", inside.args if inside.kind in ("tuple", "group") else (inside,), name)

    def _multiplies(self, name: str) -> bool:
        """Whether a symbol before a bracket can hardly be a function of it; looks ahead, once for each bracket."""
        if self._at not in self._products:
            start, pieces = self._at, list(self._tokens)
            inside, power = self._bracket(), self._next == "^"
            self._at, self._tokens = start, pieces
            self._products[start] = inside.kind == "group" and _is_factor(name, inside.args[0], power)
        return self._products[self._at]

    def _index(self) -> str:
        """Read a subscript as a part of the name."""
        if not self._take("{"):
            text = self._next
            if self._kind not in ("number", "word") and text not in GREEK:
                raise UnreadableError("an index that is no name")
            self._at += 1
            return text
        text = ""
        while self._next and self._next not in ("{", "}"):
            text += self._next
            self._at += 1
        self._expect("}")
        return text

    def _group(self) -> Node:
        self._expect("{")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {MAX_DEPTH} levels")
        inside = self._relation()
        self._depth -= 1
        self._expect("}")
        return inside

    def _bracket(self) -> Node:
        opening = self._next
        if opening == "{":
            return self._group()
        self._at += 1
        if opening in (r"\{", r"\lbrace"):
            closing = _CLOSING[opening]
            if self._take(closing):
                return Node("set")
            items = self._items()
            self._expect(closing)
            return Node("set", tuple(items))
        self._open_bars += opening == "|"
        items = self._items()
        self._open_bars -= opening == "|"
        closing = self._next
        if opening in ("(", "[") and len(items) == 2 and closing in (")", "]"):
            self._at += 1
            return Node("tuple", tuple(items), opening + closing)
        self._expect(_CLOSING[opening])
        return self._bracketed(opening, items)

    def _bracketed(self, opening: str, items: list[Node]) -> Node:
        if opening in ("(", "["):
            single = len(items) == 1
            if single and items[0].kind == "relation":
                raise UnreadableError("a relation in brackets")
            return Node("group", tuple(items)) if single else Node("tuple", tuple(items), opening + _CLOSING[opening])
        if opening == r"\langle":
            return Node("tuple", tuple(items), "<>")
        if len(items) != 1:
            raise UnreadableError(f"a list inside {opening}")
        name = {r"\lfloor": "floor", r"\lceil": "ceil"}.get(opening, "abs")
        return Node("call", tuple(items), name)

    def _argument(self) -> Node:
        """Read an argument of a command: a group or one digit, letter or command, as TeX does."""
        if self._next == "{":
            return self._group()
        token = self._tokens[self._at] if self._at < len(self._tokens) else Token("end", "")
        if token.kind == "number" and token.text.isdigit():
            if len(token.text) == 1:
                self._at += 1
            else:
                self._tokens[self._at] = Token("number", token.text[1:])
            return Node("num", name=token.text[0], value=Fraction(int(token.text[0])))
        if token.kind == "word" or token.text in GREEK:
            self._at += 1
            return Node("sym", name=token.text)
        raise UnreadableError(f"the argument {token.text[:20]!r}")

    def _fraction(self) -> Node:
        self._at += 1
        digits = self._next if self._kind == "number" else ""
        if len(digits) > 2:
            raise UnreadableError("a fraction of several digits without braces")
        return Node("div", (self._argument(), self._argument()))

    def _binomial(self) -> Node:
        self._at += 1
        return Node("binomial", (self._argument(), self._argument()))

    def _root(self) -> Node:
        self._at += 1
        degree = Node("num", name="2", value=Fraction(2))
        if self._take("["):
            degree = self._sum()
            self._expect("]")
        if self._next == "(":
            return Node("root", (self._primary(), degree))
        if self._kind == "number" and len(self._next) > 1:
            raise UnreadableError("a root of several digits without braces")
        return Node("root", (self._argument(), degree))

    def _series(self) -> Node:
        """Read a sum or product over an index; its body is the product that follows."""
        name = self._next[1:]
        self._at += 1
        self._expect("_")
        start = self._group()
        if start.kind != "relation" or start.name != "=" or start.args[0].kind != "sym":
            raise UnreadableError(f"the range of a {name}")
        self._expect("^")
        stop = self._script()
        return Node("series", (start.args[0], start.args[1], stop, self._product()), name)

    def _function(self) -> Node:
        name = self._next[1:]
        self._at += 1
        base, power = None, None
        while self._next in ("_", "^"):
            if self._take("_") and base is None:
                base = self._script()
            elif self._take("^") and power is None:
                power = self._script()
            else:
                raise UnreadableError(f"two scripts at {name}")
        call = self._call(name, base)
        if power is None:
            return call
        if power == Node("neg", (Node("num", name="1", value=Fraction(1)),)) and name in ("sin", "cos", "tan"):
            return Node("call", call.args, "arc" + name)
        return Node("pow", (call, power))

    def _call(self, name: str, base: Node | None) -> Node:
        if base is not None and name != "log":
            raise UnreadableError(f"an index at {name}")
        if name in _SEVERAL:
            return self._several(name)
        if self._next in ("(", "{", "[", "|"):
            inside = self._primary()
            if self._next == "^" or inside.kind == "tuple":
                raise UnreadableError(f"a power after the argument of {name}")
        else:
            inside = self._bare_argument()
        return Node("call", (inside,) if base is None else (inside, base), name)

    def _several(self, name: str) -> Node:
        if self._next not in ("(", r"\{", "{", "["):
            raise UnreadableError(f"{name} without brackets")
        inside = self._bracket()
        if inside.kind not in ("tuple", "set") or not inside.args:
            raise UnreadableError(f"{name} of one thing")
        return Node("call", inside.args, name)

    def _bare_argument(self) -> Node:
        """Read the argument of a function without brackets: factors up to the next function or bracket."""
        left = Node("neg", (self._power(),)) if self._take("-") else self._power()
        while self._kind == "word" or self._next in (r"\pi", r"\frac", r"\sqrt") or self._next in GREEK:
            left = Node("mul", (left, self._power()))
        return left


def _is_factor(name: str, inside: Node, power: bool) -> bool:
    """Whether a symbol before brackets multiplies what is inside of them; `power`: their power follows."""
    letters = {node.name for node in _walk(inside) if node.kind == "sym"}
    if name in _FUNCTION_NAMES:
        return False
    if name in ("e", "i", r"\pi") and not letters - {"e", "i", r"\pi"}:
        # "\\pi(10)" may be a number of primes, "\\pi(0.1)^2" is an area.
        return name != r"\pi" or power or not (inside.kind == "num" and inside.name.isdigit())
    return name in letters or (inside.kind in ("add", "sub", "pm") and name.partition("_")[0] in _FACTOR_NAMES)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for arg in node.args:
        yield from _walk(arg)

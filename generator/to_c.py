"""Compiles a template to C, from Jinja2's own syntax tree.

The C function appends to an ap_text, from an ap_render_input, the bytes that Jinja2 renders from
the same values. What a template may use is what this file compiles; all else is a TemplateError
that names the template, the line and the construct:

    text; <# comments #>
    ${ variable }, ${ integer arithmetic: + - * // % }, ${ x if condition else y }
    if / elif / else / endif, with ==, !=, <, <=, >, >=, and, or, not, in ("a", "b")
    for i in range(n), for i in range(a, b) / endfor
    set x = integer
    include "a/path"; its text is compiled in place. What it sets ends with it, as in Jinja2

Python's integers have no bounds and its // and % round down; C's int32_t overflows and rounds to
zero. Each expression is therefore compiled together with its bounds, which follow from those of
the variables (render.py): one that may leave int32_t, a divisor that may be 0 and a dividend that
may be negative are errors, and what remains means the same in both languages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import jinja2
from jinja2 import nodes

from generator import GeneratorError
from generator.render import Integer, TemplateError, Text, Variable, template_text

INT32 = Integer(-(2**31), 2**31 - 1)
LITERAL_BYTES = 4000  # C11 promises string literals of 4095 characters
C_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        auto break case char const continue default do double else enum extern float for goto if
        inline int long register restrict return short signed sizeof static struct switch typedef
        union unsigned void volatile while out in TEXT INTEGER STRING IS
        """,
    )
)

# What the nodes that cannot be compiled are called in a template.
_NAMES = {
    nodes.AssignBlock: "a set block",
    nodes.Block: "block",
    nodes.Call: "a call",
    nodes.CallBlock: "call",
    nodes.Concat: "~",
    nodes.Dict: "a dict",
    nodes.Div: "/ (it gives a float; // divides integers)",
    nodes.Extends: "extends",
    nodes.Filter: "a filter",
    nodes.FilterBlock: "a filter block",
    nodes.FromImport: "from ... import",
    nodes.Getattr: "an attribute",
    nodes.Getitem: "a subscript",
    nodes.Import: "import",
    nodes.List: "a list",
    nodes.Macro: "macro",
    nodes.Pow: "**",
    nodes.Pos: "unary +",
    nodes.Slice: "a slice",
    nodes.Test: "a test with is",
    nodes.Tuple: "a tuple",
    nodes.With: "with",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}


@dataclass(frozen=True)
class Condition:
    """The kind of an expression that is true or false."""


@dataclass(frozen=True)
class Expression:
    """C code and what is known of its value. `atom`: needs no parentheses as an operand. A word is
    an integer in C: `text` is its string, and `words` are the integers of all that it can be."""

    code: str
    kind: Integer | Text | Condition
    atom: bool = False
    text: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def operand(self) -> str:
        return self.code if self.atom else f"({self.code})"

    @property
    def string(self) -> str:
        """C code of the string that it is."""
        return self.text or self.operand


@dataclass
class Scope:
    """The names that a template has made itself, as far as compiled."""

    known: dict[str, Integer] = field(default_factory=dict)  # defined here, with their bounds
    declared: set[str] = field(default_factory=set)  # have a C variable in this function
    fixed: frozenset[str] = frozenset()  # from outside of a loop or include: not to be set here

    def branch(self) -> Scope:
        return Scope(dict(self.known), self.declared, self.fixed)


def compile_template(
    env: jinja2.Environment, name: str, variables: Mapping[str, Variable], function: str
) -> str:
    """The C function `void function(ap_text *out, const ap_render_input *in)` of a template."""
    tree = _parse(env, name)
    body = _Compiler(env, name, variables).function_body(tree)
    return f"void {function}(ap_text *out, const ap_render_input *in) {{\n{body}}}\n"


def _parse(env: jinja2.Environment, name: str) -> nodes.Template:
    return _parse_text(env, name, template_text(env, name))


@cache
def _parse_text(env: jinja2.Environment, name: str, text: str) -> nodes.Template:
    """Once for all templates that include it."""
    try:
        return env.parse(text, name)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(name, error.lineno, error.message) from None


class _Compiler:
    def __init__(
        self, env: jinja2.Environment, template: str, variables: Mapping[str, Variable]
    ) -> None:
        self.env = env
        self.templates = [template]  # the one that is compiled last, after those that include it
        self.variables = variables
        self.lines: list[str] = []
        self.depth = 1
        self.pending = ""  # literal text that is not written yet
        self.used: set[str] = set()  # variables whose `code` is read
        self.uses_input = False

    def function_body(self, tree: nodes.Template) -> str:
        self.statements(tree.body, Scope())
        self.flush()
        read = [
            f"  const int32_t {name} = {variable.code};\n"
            if variable.words or isinstance(variable.kind, Integer)
            else f"  const char *const {name} = {variable.code};\n"
            for name, variable in self.variables.items()
            if name in self.used
        ]
        if not self.uses_input:
            read.append("  (void)in;\n")
        return "".join(read + self.lines)

    def error(self, node: nodes.Node, what: str) -> TemplateError:
        return TemplateError(self.templates[-1], node.lineno, what)

    def unsupported(self, node: nodes.Node) -> TemplateError:
        what = _NAMES.get(type(node), type(node).__name__)
        if isinstance(node, nodes.Filter | nodes.Test):
            what += f" ({node.name})"
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
            what += f" of {node.node.name}()"
        return self.error(node, f"{what} cannot be compiled to C")

    # ---- Output ----

    def line(self, code: str) -> None:
        self.flush()
        self.lines.append("  " * self.depth + code + "\n")

    def flush(self) -> None:
        """Writes the pending text, a string literal a line of it."""
        text, self.pending = self.pending, ""
        for chunk in _chunks(text):
            indent = "\n" + "  " * self.depth + "     "
            literals = indent.join(c_literal(line) for line in chunk)
            self.lines.append("  " * self.depth + f"TEXT({literals});\n")

    # ---- Statements ----

    def statements(self, body: list[nodes.Node], scope: Scope) -> None:
        for node in body:
            if isinstance(node, nodes.Output):
                for item in node.nodes:
                    self.output(item, scope)
            elif isinstance(node, nodes.If):
                self.if_statement(node, scope)
            elif isinstance(node, nodes.For):
                self.for_statement(node, scope)
            elif isinstance(node, nodes.Assign):
                self.set_statement(node, scope)
            elif isinstance(node, nodes.Include):
                self.include_statement(node, scope)
            else:
                raise self.unsupported(node)

    def output(self, node: nodes.Node, scope: Scope) -> None:
        if isinstance(node, nodes.TemplateData):
            self.pending += node.data
            return
        value = self.expression(node, scope)
        if isinstance(value.kind, Condition):
            raise self.error(node, "a condition cannot be put into the text")
        if isinstance(value.kind, Integer):
            self.line(f"INTEGER({value.code});")
        else:
            self.line(f"STRING({value.text or value.code});")

    def if_statement(self, node: nodes.If, scope: Scope) -> None:
        # Names that the branches set live on after them, so their variables stand before.
        for name in sorted(_names_set(node)):
            if name not in scope.declared:
                self.declare(node, name, scope)
                self.line(f"int32_t {name} = 0;")
        branches = [(node.test, node.body), *((elif_.test, elif_.body) for elif_ in node.elif_)]
        ends = []
        for number, (test, body) in enumerate(branches):
            condition = self.condition(test, scope)
            self.line(f"{'} else ' if number else ''}if ({condition.code}) {{")
            ends.append(self.block(body, scope.branch()))
        if node.else_:
            self.line("} else {")
        ends.append(self.block(node.else_, scope.branch()))
        self.line("}")
        # Known after it is what every branch knows, within the bounds of any.
        scope.known = {
            name: _union([end.known[name] for end in ends])
            for name in ends[0].known
            if all(name in end.known for end in ends)
        }

    def block(self, body: list[nodes.Node], scope: Scope) -> Scope:
        self.flush()
        self.depth += 1
        self.statements(body, scope)
        self.flush()
        self.depth -= 1
        return scope

    def for_statement(self, node: nodes.For, scope: Scope) -> None:
        if node.else_ or node.test is not None or node.recursive:
            raise self.error(node, "for with else, if or recursive cannot be compiled to C")
        call = node.iter
        if (
            not isinstance(call, nodes.Call)
            or not isinstance(call.node, nodes.Name)
            or call.node.name != "range"
            or len(call.args) not in (1, 2)
            or call.kwargs
            or call.dyn_args is not None
            or call.dyn_kwargs is not None
        ):
            raise self.error(node, "for can only be over range(n) or range(a, b)")
        if not isinstance(node.target, nodes.Name):
            raise self.error(node, "for with several names cannot be compiled to C")
        bounds = [self.integer(arg, scope) for arg in call.args]
        begin = bounds[0] if len(bounds) == 2 else Expression("0", Integer(0, 0), atom=True)
        end = bounds[-1]
        name = node.target.name
        self.check_new_name(node, name)
        if name in scope.declared:
            raise self.error(node, f"{name} has a value already")
        inner = Scope(dict(scope.known), set(scope.declared), frozenset(scope.declared) | {name})
        inner.declared.add(name)
        inner.known[name] = Integer(begin.kind.low, max(begin.kind.low, end.kind.high - 1))
        self.line(f"for (int32_t {name} = {begin.code}; {name} < {end.operand}; ++{name}) {{")
        self.block(node.body, inner)
        self.line("}")

    def include_statement(self, node: nodes.Include, scope: Scope) -> None:
        if not isinstance(node.template, nodes.Const) or not isinstance(node.template.value, str):
            raise self.error(node, "include can only be of one path in quotes")
        if node.ignore_missing or not node.with_context:
            raise self.error(node, "include must be plain: with context, of a file that is there")
        name = node.template.value
        if name in self.templates:
            raise self.error(node, f"{name} includes itself")
        try:
            tree = _parse(self.env, name)
        except TemplateError:  # names the included text itself
            raise
        except GeneratorError as error:
            raise self.error(node, str(error)) from None
        inner = Scope(dict(scope.known), set(scope.declared), frozenset(scope.declared))
        self.templates.append(name)
        if tree.find(nodes.Assign) is None:
            self.statements(tree.body, inner)
        else:  # in a block of its own, so that its names can be used again
            self.line("{")
            self.block(tree.body, inner)
            self.line("}")
        self.templates.pop()

    def set_statement(self, node: nodes.Assign, scope: Scope) -> None:
        if not isinstance(node.target, nodes.Name):
            raise self.error(node, "set can only be of one name")
        name = node.target.name
        value = self.expression(node.node, scope)
        if not isinstance(value.kind, Integer):
            raise self.error(node, f"set {name}: only integers can be set")
        if name in scope.declared:
            if name in scope.fixed:
                # Jinja2 would set a new name that ends with the loop's pass, or the include.
                raise self.error(node, f"set {name}: it was set outside of this loop or include")
            self.line(f"{name} = {value.code};")
        else:
            self.declare(node, name, scope)
            self.line(f"int32_t {name} = {value.code};")
        scope.known[name] = value.kind

    def declare(self, node: nodes.Node, name: str, scope: Scope) -> None:
        self.check_new_name(node, name)
        scope.declared.add(name)

    def check_new_name(self, node: nodes.Node, name: str) -> None:
        if name in self.variables:
            raise self.error(node, f"{name} is a variable of every template and cannot be set")
        if name in C_WORDS or not (name.isascii() and name.isidentifier()):
            raise self.error(node, f"{name} cannot be the name of a variable in C")

    # ---- Expressions ----

    def integer(self, node: nodes.Expr, scope: Scope) -> Expression:
        value = self.expression(node, scope)
        if not isinstance(value.kind, Integer):
            raise self.error(node, f"{_describe(value.kind)} stands where an integer must")
        return value

    def condition(self, node: nodes.Expr, scope: Scope) -> Expression:
        value = self.expression(node, scope)
        if isinstance(value.kind, Text):
            raise self.error(node, "a string cannot be a condition")
        if isinstance(value.kind, Integer) and not isinstance(node, nodes.Name):
            # Compilers take a bare 2 * x or 80 that is used as a condition for a slip.
            return Expression(f"{value.operand} != 0", Condition())
        return value

    def expression(self, node: nodes.Expr, scope: Scope) -> Expression:
        if isinstance(node, nodes.Const):
            return self.constant(node)
        if isinstance(node, nodes.Name):
            return self.name(node, scope)
        if isinstance(node, nodes.Neg):
            return self.negative(node, scope)
        if isinstance(node, nodes.Add | nodes.Sub | nodes.Mul | nodes.FloorDiv | nodes.Mod):
            return self.arithmetic(node, scope)
        if isinstance(node, nodes.Compare):
            return self.comparison(node, scope)
        if isinstance(node, nodes.And | nodes.Or):
            left = self.condition(node.left, scope).operand
            right = self.condition(node.right, scope).operand
            sign = "&&" if isinstance(node, nodes.And) else "||"
            return Expression(f"{left} {sign} {right}", Condition())
        if isinstance(node, nodes.Not):
            operand = self.condition(node.node, scope).operand
            return Expression(f"!{operand}", Condition(), atom=True)
        if isinstance(node, nodes.CondExpr):
            return self.choice(node, scope)
        raise self.unsupported(node)

    def constant(self, node: nodes.Const) -> Expression:
        if isinstance(node.value, str):
            return Expression(c_literal(node.value), Text((node.value,)), atom=True)
        if type(node.value) is int:
            value = Integer(node.value, node.value)
            self.check_bounds(node, value)
            return Expression(str(node.value), value, atom=True)
        raise self.error(node, f"the constant {node.value} is neither an integer nor a string")

    def name(self, node: nodes.Name, scope: Scope) -> Expression:
        if node.name in scope.known:
            return Expression(node.name, scope.known[node.name], atom=True)
        if node.name in scope.declared:
            raise self.error(node, f"{node.name} is not set on every way to this line")
        if node.name in self.variables:
            variable = self.variables[node.name]
            self.uses_input = True
            if not variable.words:
                self.used.add(node.name)
            return Expression(node.name, variable.kind, True, variable.text, variable.words)
        raise self.error(node, f"{node.name} is not defined")

    def negative(self, node: nodes.Neg, scope: Scope) -> Expression:
        operand = self.integer(node.node, scope)
        bounds = Integer(-operand.kind.high, -operand.kind.low)
        self.check_bounds(node, bounds)
        return Expression(f"-{operand.operand}", bounds)

    def arithmetic(self, node: nodes.BinExpr, scope: Scope) -> Expression:
        left = self.integer(node.left, scope)
        right = self.integer(node.right, scope)
        a, b = left.kind, right.kind
        if isinstance(node, nodes.FloorDiv | nodes.Mod):
            if b.low <= 0:
                raise self.error(node, f"the divisor {right.code} may be {b.low}: not positive")
            if a.low < 0:
                raise self.error(node, f"the dividend {left.code} may be {a.low}: negative")
        if isinstance(node, nodes.Add):
            sign, bounds = "+", Integer(a.low + b.low, a.high + b.high)
        elif isinstance(node, nodes.Sub):
            sign, bounds = "-", Integer(a.low - b.high, a.high - b.low)
        elif isinstance(node, nodes.Mul):
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            sign, bounds = "*", Integer(min(corners), max(corners))
        elif isinstance(node, nodes.FloorDiv):
            sign, bounds = "/", Integer(a.low // b.high, a.high // b.low)
        else:
            sign, bounds = "%", Integer(0, min(a.high, b.high - 1))
        self.check_bounds(node, bounds)
        return Expression(f"{left.operand} {sign} {right.operand}", bounds)

    def check_bounds(self, node: nodes.Node, bounds: Integer) -> None:
        if bounds.low < INT32.low or bounds.high > INT32.high:
            raise self.error(
                node,
                f"an integer that may be {bounds.low} to {bounds.high} does not fit 32 bits",
            )

    def comparison(self, node: nodes.Compare, scope: Scope) -> Expression:
        if len(node.ops) != 1:
            raise self.error(node, "a chain of comparisons cannot be compiled to C")
        operator = node.ops[0]
        left = self.expression(node.expr, scope)
        if operator.op in ("in", "notin"):
            if not isinstance(operator.expr, nodes.Tuple | nodes.List) or not operator.expr.items:
                raise self.error(node, 'in must be followed by a list such as ("a", "b")')
            rights = [self.expression(item, scope) for item in operator.expr.items]
            equal = [self.compare(node, left, "==", right) for right in rights]
            if len(equal) == 1:
                code, atom = equal[0].operand, True
            else:
                code, atom = " || ".join(item.operand for item in equal), False
            if operator.op == "notin":
                return Expression(f"!{code if atom else f'({code})'}", Condition(), atom=True)
            return Expression(code, Condition(), atom)
        if operator.op not in _COMPARISONS:
            raise self.error(node, f"the comparison {operator.op} cannot be compiled to C")
        right = self.expression(operator.expr, scope)
        return self.compare(node, left, _COMPARISONS[operator.op], right)

    def compare(
        self, node: nodes.Node, left: Expression, sign: str, right: Expression
    ) -> Expression:
        if isinstance(left.kind, Integer) and isinstance(right.kind, Integer):
            return Expression(f"{left.operand} {sign} {right.operand}", Condition())
        if not isinstance(left.kind, Text) or not isinstance(right.kind, Text):
            raise self.error(
                node, f"{_describe(left.kind)} is compared with {_describe(right.kind)}"
            )
        if sign not in ("==", "!="):
            raise self.error(node, f"strings cannot be compared with {sign}")
        for one, other in ((left, right), (right, left)):
            if not one.kind.values:
                raise self.error(node, f"{one.code} has no list of values to compare it with")
            if len(other.kind.values) == 1 and other.kind.values[0] not in one.kind.values:
                raise self.error(
                    node,
                    f"{one.code} is never {other.code}: it is {' or '.join(one.kind.values)}",
                )
        for one, other in ((left, right), (right, left)):
            if one.words and not other.words and len(other.kind.values) == 1:
                self.used.add(one.code)
                word = one.words[other.kind.values[0]]
                return Expression(f"{one.code} {sign} {word}", Condition())
        code = f"IS({left.string}, {right.string})"
        return Expression(code if sign == "==" else f"!{code}", Condition(), atom=True)

    def choice(self, node: nodes.CondExpr, scope: Scope) -> Expression:
        if node.expr2 is None:
            raise self.error(node, "x if condition needs an else")
        test = self.condition(node.test, scope)
        first = self.expression(node.expr1, scope)
        second = self.expression(node.expr2, scope)
        code = f"{test.operand} ? {first.operand} : {second.operand}"
        if isinstance(first.kind, Integer) and isinstance(second.kind, Integer):
            return Expression(code, _union([first.kind, second.kind]))
        if isinstance(first.kind, Text) and isinstance(second.kind, Text):
            code = f"{test.operand} ? {first.string} : {second.string}"
            known = first.kind.values and second.kind.values
            values = first.kind.values + second.kind.values if known else ()
            return Expression(code, Text(tuple(dict.fromkeys(values))))
        raise self.error(
            node,
            f"one choice is {_describe(first.kind)}, the other {_describe(second.kind)}",
        )


def _names_set(node: nodes.If) -> set[str]:
    """The names that the branches of an if set, loops aside: theirs end with the loop."""
    found = set()
    bodies = [node.body, node.else_, *(elif_.body for elif_ in node.elif_)]
    for statement in (statement for body in bodies for statement in body):
        if isinstance(statement, nodes.Assign) and isinstance(statement.target, nodes.Name):
            found.add(statement.target.name)
        elif isinstance(statement, nodes.If):
            found |= _names_set(statement)
    return found


def _union(kinds: list[Integer]) -> Integer:
    return Integer(min(kind.low for kind in kinds), max(kind.high for kind in kinds))


def _describe(kind: Integer | Text | Condition) -> str:
    return {Integer: "an integer", Text: "a string", Condition: "a condition"}[type(kind)]


def _chunks(text: str) -> list[list[str]]:
    """Lines of a text, in groups that one string literal holds."""
    chunks: list[list[str]] = []
    size = LITERAL_BYTES
    for line in text.splitlines(keepends=True):
        line_size = len(line.encode())
        if size + line_size > LITERAL_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append(line)
        size += line_size
    return chunks


_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "?": "\\?"}
_ESCAPED = re.compile(r"(?<=\?)\?|[^ -~]|[\"\\]")


def c_literal(text: str) -> str:
    """A C string literal of the text's UTF-8 bytes. No trigraph comes about, and octal escapes
    have three digits, so that no digit after them is taken in."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _ESCAPES.get(character) or "".join(f"\\{byte:03o}" for byte in character.encode())

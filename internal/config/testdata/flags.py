# Writes the golden list of aiperf's `profile` flags, one field a line: FIELD<tab>bool|words|word<tab>NAMES<tab>NEGATIVES<tab>TYPE<tab>DEFAULT<tab>CHOICES.
# TYPE is str, int, float, enum, or other for unions and what has a parser of its own; DEFAULT and CHOICES are empty where there is none.
# Run with the Python of an aiperf 0.13.0 installation:
#   python testdata/flags.py > testdata/aiperf-0.13.0-flags.txt
import enum
import inspect
import typing

from aiperf.config.flags.cli_config import CLIConfig


def kinds(annotation):
    """The plain types of an annotation, unions and lists taken apart."""
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return ["enum"], list(inner)
    if inner and typing.get_origin(annotation) is not dict:
        found, choices = [], []
        for a in inner:
            if a is type(None) or not (inspect.isclass(a) or typing.get_origin(a)):
                continue
            k, c = kinds(a)
            found += [x for x in k if x not in found]
            choices += c
        return found, choices
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return ["enum"], [str(m.value) for m in annotation]
    return [annotation.__name__ if annotation in (str, int, float) else "other"], []


for field, info in CLIConfig.model_fields.items():
    param = next(m for m in info.metadata if hasattr(m, "consume_multiple"))
    kind = "word"
    if info.annotation in (bool, bool | None):
        kind = "bool"
    elif param.consume_multiple:
        kind = "words"
    types, choices = kinds(info.annotation)
    for most in ("enum", "other", "str", "float", "int"):
        if most in types:
            break
    default = info.get_default(call_default_factory=True)
    if isinstance(default, enum.Enum):
        default = default.value
    if isinstance(default, (list, tuple)):
        default = ",".join(str(x.value if isinstance(x, enum.Enum) else x) for x in default)
    default = "" if default is None else str(default)
    print(field, kind, " ".join(param.name), " ".join(param.negative or ()), most, default, " ".join(str(c) for c in choices), sep="\t")

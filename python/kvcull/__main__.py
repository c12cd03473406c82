"""python -m kvcull demo: the bundled model answers a question with each of three policies."""
import json
import random
import sys
from pathlib import Path

from . import Model, VERSION, _find, policy
from .errors import KvcullError


def bundled_model() -> Path:
    """Returns the folder of the bundled model: in the package, or in the source tree. Raises FileNotFoundError if neither has it."""
    tree = _find.source_tree()
    for folder in [Path(__file__).parent / "demo"] + ([tree / "data" / "demo"] if tree else []):
        if (folder / "config.json").is_file():
            return folder
    raise FileNotFoundError("the bundled model is not in this installation; wheels and the source tree have it")


def question(texts=100):
    """Returns a text that gives a number for each of four things and asks for one number, and the right answer."""
    source = random.Random(7)
    words = json.loads((bundled_model() / "words.json").read_text(encoding="utf-8"))
    keys = source.sample(words["keys"], 4)
    numbers = [" ".join(source.choices(words["numbers"], k=2)) for _ in keys]
    sentences = []
    for index in range(texts):
        sentences.append(f"the {source.choice(words['adjectives'])} {source.choice(words['people'])} "
                         f"{source.choice(words['verbs'])} the {source.choice(words['adjectives'])} "
                         f"{source.choice(words['nouns'])} {source.choice(words['prepositions'])} "
                         f"the {source.choice(words['places'])} .")
        if index % (texts // 4) == 5:
            sentences.append(f"the magic number for {keys[index * 4 // texts]} {numbers[index * 4 // texts]} .")
    return " ".join(sentences) + f" question : the magic number for {keys[0]}", numbers[0]


def demo() -> None:
    """Prints each policy's answer and the bytes of its cache."""
    model = Model(str(bundled_model()))
    text, answer = question()
    print(f"The right answer is {answer}.\n{'policy':28} {'answer':10} cache bytes")
    for method in (policy.full(), policy.streaming(budget=64), policy.snapkv(budget=64)):
        session = model.session(method)
        said = session.answer(text, tokens=2, temperature=0).strip()
        print(f"{str(method):28} {said:10} {session.stats().cache_bytes:,}")


def main(arguments) -> int:
    """Returns the exit status: 0 for success, 2 for wrong arguments, 1 for an error."""
    if arguments == ["--version"]:
        print(f"kvcull {VERSION}")
        return 0
    if arguments != ["demo"]:
        print("usage: python -m kvcull demo | --version", file=sys.stderr)
        return 2
    try:
        demo()
    except (KvcullError, FileNotFoundError) as error:
        print(f"kvcull: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

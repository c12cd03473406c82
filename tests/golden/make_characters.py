#!/usr/bin/env python3
"""make_characters.py - writes models/jinja/character_table.c: the character properties that Python's str methods use
and utf8proc does not provide.

    python tests/golden/make_characters.py > models/jinja/character_table.c
"""
import unicodedata

HEAD = '''/* character_table.c - character properties that Python's string methods need beyond general categories and simple case
 * mappings. Written by tests/golden/make_characters.py from Unicode {version}. */
#include "models/jinja/characters.h"
'''


def ranges(holds):
    found = []
    for code in range(0x110000):
        if 0xd800 <= code < 0xe000 or not holds(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, comment, holds):
    print(f"\n/* {comment} */")
    cells = [f"{{{first:#x}, {last:#x}}}" for first, last in ranges(holds)]
    print(f"const struct jinja_range {name}[] = {{{', '.join(cells)}, {{0, 0}}}};")


def escaped(text):
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def category(character):
    return unicodedata.category(character)


def main():
    print(HEAD.format(version=unicodedata.unidata_version), end="")
    table("jinja_more_upper", "Uppercase characters outside category Lu.",
          lambda c: c.isupper() and category(c) != "Lu")
    table("jinja_more_lower", "Lowercase characters outside category Ll.",
          lambda c: c.islower() and category(c) != "Ll")
    table("jinja_more_digits", "Digits outside category Nd.", lambda c: c.isdigit() and category(c) != "Nd")
    table("jinja_more_numbers", "Numeric characters outside categories N*.",
          lambda c: c.isnumeric() and category(c)[0] != "N")
    print("\n/* Characters that become several characters in upper case or title case. */")
    print("const struct jinja_special_case jinja_special_cases[] = {")
    for code in range(0x110000):
        one = chr(code)
        if not 0xd800 <= code < 0xe000 and (len(one.upper()) > 1 or len(one.title()) > 1):
            print(f"    {{{code:#x}, {escaped(one.upper())}, {escaped(one.title())}}},")
    print("    {0, NULL, NULL}};")


if __name__ == "__main__":
    main()

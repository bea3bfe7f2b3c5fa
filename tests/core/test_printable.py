"""Names from files can't move the cursor of a terminal."""

from trainkit.core.files.printable import printable, printable_line


def test_what_can_not_be_seen_is_escaped():
    assert printable("\x1b[2Jgone\x07") == "\\x1b[2Jgone\\x07"
    assert printable("abc\u202ecod\x9b") == "abc\\u202ecod\\x9b"
    assert printable(b"\xff".decode(errors="surrogateescape")) == "\\udcff"
    assert printable("two\nlines\tand é 中") == "two\nlines\tand é 中"
    assert printable_line("two\nlines\r") == "two\\nlines\\r"

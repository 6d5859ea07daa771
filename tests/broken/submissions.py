"""Broken submission files: name -> (content, line of the problem, words of its message)."""

A = "layout:xla:random:" + "a" * 32
B = "layout:nlp:default:" + "b" * 32
T = "tile:xla:" + "c" * 32
GOOD = f"ID,TopConfigs\n{A},2;0;1\n{T},9;3;4;0;7\n"

BROKEN = {
    "empty file": ("", 1, "empty"),
    "no header": (GOOD.split("\n", 1)[1], 1, "header"),
    "header case": (GOOD.replace("ID,TopConfigs", "id,topconfigs"), 1, "header"),
    "header separator": (GOOD.replace("ID,", "ID;"), 1, "header"),
    "byte-order mark": (b"\xef\xbb\xbf" + GOOD.encode(), 1, "byte-order mark"),
    "binary": (b"PK\x03\x04\xff\xfe\x00" + GOOD.encode(), 1, "UTF-8"),
    "null byte": (GOOD.replace("2;0;1", "2;\x00;1"), 2, "not a config index"),
    "not utf-8 later": (GOOD.encode() + b"\xff\n", 4, "UTF-8"),
    "empty line": (GOOD.replace("\n" + T, "\n\n" + T), 3, "empty line"),
    "tab for comma": (GOOD.replace(A + ",", A + "\t"), 2, "separated by ','"),
    "semicolon for comma": (GOOD.replace(A + ",", A + ";"), 2, "separated by ','"),
    "ID alone": (GOOD.replace(A + ",2;0;1", A), 2, "separated by ','"),
    "commas between": (GOOD.replace("2;0;1", "2,0,1"), 2, "joined by ';'"),
    "blanks between": (GOOD.replace("2;0;1", "2 0 1"), 2, "joined by ';'"),
    "blank after": (GOOD.replace("2;0;1", "2; 0;1"), 2, "joined by ';'"),
    "quoted": (GOOD.replace("2;0;1", '"2;0;1"'), 2, "not a config index"),
    "quoted ID": (GOOD.replace(A, f'"{A}"'), 2, "is not <collection>"),
    "unknown collection": (GOOD.replace("layout:xla:random", "layout:xla"), 2, "is not <collection>"),
    "no name": (GOOD.replace("a" * 32, ""), 2, "is not <collection>"),
    "blank in ID": (GOOD.replace("a" * 32, "a b"), 2, "is not <collection>"),
    "no indices": (GOOD.replace("2;0;1", ""), 2, "no indices"),
    "trailing semicolon": (GOOD.replace("2;0;1", "2;0;1;"), 2, "';' too many"),
    "float": (GOOD.replace("2;0;1", "2.0;0;1"), 2, "'2.0' is not a config index"),
    "negative": (GOOD.replace("2;0;1", "-2;0;1"), 2, "'-2' is not a config index"),
    "huge": (GOOD.replace("2;0;1", "9" * 5000), 2, "not a config index"),
    "other digits": (GOOD.replace("2;0;1", "٢;0;1"), 2, "not a config index"),
    "out of range": (GOOD.replace("2;0;1", "3;0;1"), 2, "index 3 is out of range"),
    "twice": (GOOD.replace("2;0;1", "2;0;0"), 2, "index 0 appears 2 times"),
    "tile twice": (GOOD.replace("9;3;4;0;7", "9;3;4;9;7"), 3, "index 9 appears 2 times"),
    "tile too few": (GOOD.replace("9;3;4;0;7", "9;3;4"), 3, "index 9 is out of range"),
    "duplicate ID": (GOOD + f"{A},0;1;2\n", 4, "already on line 2"),
}

"""The syntax of Tile: trees, the parser, the text of a tree, and errors that point into it.

In: text. Out: a syntax tree, or an error with line, column and advice. Read `syntax_tree.py`
first, then `parser.py` and `grammar.lark`.
"""

"""Print the script that lets a shell complete commands, options, choices and names.

example:
  tpugraphs completion bash      in ~/.bashrc: eval "$(tpugraphs completion bash)"
  tpugraphs completion zsh > ~/.zfunc/_tpugraphs   a folder of $fpath
  tpugraphs completion fish > ~/.config/fish/completions/tpugraphs.fish
"""

# The script for the shell runs ``tpugraphs`` itself at every Tab; argcomplete reads the parser then, whose
# options have their completers from `option`.

from typing import Any

from tpugraphs.cli.common import Args, Parser, emit, option
from tpugraphs.system.extras import optional

SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"  # the variable that the script sets when it asks what to complete


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "shell", "the shell that reads it", choices=SHELLS)


def run(args: Args) -> None:
    """Print the script."""
    text = _argcomplete().shellcode(["tpugraphs"], shell=args.shell, complete_arguments=["-o", "nospace"])
    emit(args, {"shell": args.shell, "script": text}, text)


def answer(parser: Parser, **how: Any) -> None:
    """Print the completions at the cursor for the shell, and end the process."""
    _argcomplete().autocomplete(parser, always_complete_options=False, **how)


def _argcomplete() -> Any:
    return optional("argcomplete", "completion needs argcomplete, which is missing: pip install argcomplete")

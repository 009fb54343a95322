"""Libraries of Python that a tool of the tests needs and Debian does not have."""
import fcntl
import importlib.util
import os
import pathlib
import subprocess
import sys


def is_installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def require(program, packages):
    """Starts a program again where it has its libraries: an environment of its folder's own, made the first time.

    `packages` has what to install for each module. Several programs may start at once, and an installation may have been cut
    off before.
    """
    missing = [module for module in packages if not is_installed(module)]
    if not missing:
        return
    folder = pathlib.Path(program).resolve().parent
    environment = folder / ".venv"
    if pathlib.Path(sys.prefix) == environment:
        sys.exit(f"{', '.join(missing)}: not installed in {environment}; remove the folder and run this again")
    python, stamp, wanted = environment / "bin" / "python3", environment / "installed", " ".join(packages.values())
    with open(program) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages.values()], check=True, stdout=sys.stderr)
            stamp.write_text(wanted)
    os.execv(python, [python, program, *sys.argv[1:]])

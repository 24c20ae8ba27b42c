# Sourced by the scripts that run tests in one virtual environment for each version of a package.
#
#   environment FOLDER PACKAGE VERSION EXTRAS
#
# Makes the environment FOLDER/VERSION where there is none, installs PACKAGE of that version and this
# checkout with EXTRAS in it, and leaves its interpreter in $python. PYTHON makes it (default:
# python3). Needs the package registry.
unset PYTHONPATH PYTHONHOME

environment() {
  local venv=$1/$3
  python=$venv/bin/python
  [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check "$2==$3.*" --editable ".[$4]"
  echo "$2 $("$python" -c "from importlib.metadata import version; print(version('$2'))")"
}

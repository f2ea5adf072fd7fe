#!/usr/bin/env bash
# Installs the Python package with the command, unless it is there and none is wanted.
set -euo pipefail

case "${CKINETO_VERSION:-latest}" in
none) ;;
latest) python3 -m pip install --quiet --upgrade ckineto ;;
*) python3 -m pip install --quiet "ckineto==$CKINETO_VERSION" ;;
esac
if ! command -v ckineto > /dev/null; then
    echo "::error::ckineto is not in PATH; with version 'none' an earlier step has to install it"
    exit 1
fi
ckineto --version

#!/bin/sh
# Prepares something without torch, then trains.
set -e
python -c "print('prepared')"
exec python train.py "$@"

#!/usr/bin/env bash
# Builds the pages as a site: `scripts/site.sh [directory]`, build/site unless another is given.
# Pages link to each other as they lie in the tree, so build/pages has links to them at these places.
# It fails if a link or an anchor leads nowhere, or if the nav lacks a page.
set -euo pipefail
cd "$(dirname "$0")/.."

site=$(realpath -m "${1:-build/site}")
rm -rf build/pages
mkdir -p build/pages/bench
ln -s "$PWD"/{README,CONTRIBUTING,CHANGELOG}.md "$PWD/LICENSE" "$PWD/docs" build/pages
ln -s "$PWD"/bench/*.md build/pages/bench
# Without this, the theme advertises its successor in every build.
export NO_MKDOCS_2_WARNING=1
.venv/bin/python -m mkdocs build --strict --site-dir "$site"

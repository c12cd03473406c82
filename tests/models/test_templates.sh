#!/bin/sh
# The chat templates of a folder (KVCULL_TEMPLATES or models-local/templates), rendered by kvcull and by jinja2: both
# give the same text or both refuse. PYTHON is an interpreter that has jinja2.
folder=${KVCULL_TEMPLATES:-$top_srcdir/models-local/templates}
python=${PYTHON:-python3}
[ -d "$folder" ] || { echo "skipped: no folder of templates; KVCULL_TEMPLATES names one"; exit 77; }
"$python" -c 'import jinja2' 2>/dev/null || { echo "skipped: $python has no jinja2; PYTHON names another"; exit 77; }
"$python" "$top_srcdir/tools/compare_templates.py" "$top_builddir/tests/models/jinja_render" "$folder"

/* report_style.c - a report's style sheet: for light and dark modes, wide and narrow windows, and print. */
#include "eval/report.h"

/* Colors: a sequential scale from h0 (none) to h8 (all), and eight colors for methods, f0 to f7. Lightness is monotonic
 * along the scale in both modes, and text has a contrast of at least 4.5 on each step. The texts must not contain "<"
 * and "&". */
static const char *const style[] = {
    ":root{color-scheme:light dark;--bg:#fff;--fg:#16191d;--dim:#59616b;--line:#d5dae0;--card:#f6f8fa;",
    "--s0:#f1f3f5;--s1:#e2edf7;--s2:#cfe1f2;--s3:#b3d1ea;--s4:#8fbbdd;--s5:#6aa2cf;--s6:#3a76ab;--s7:#27609a;--s8:#"
    "123f70;",
    "--t0:#59616b;--t1:#16191d;--t2:#16191d;--t3:#16191d;--t4:#16191d;--t5:#10151a;--t6:#fff;--t7:#fff;--t8:#fff;",
    "--f0:#0b62a4;--f1:#b84a08;--f2:#00785a;--f3:#a3458a;--f4:#756500;--f5:#5b54b8;--f6:#b3263a;--f7:#3d6b7d;",
    "--mark:#b84a08}",
    "@media (prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e8ecf0;--dim:#9aa5b1;--line:#343c46;--card:#1a2027;",
    "--s0:#1c2229;--s1:#1b2d3e;--s2:#1c3a54;--s3:#1e476b;--s4:#225683;--s5:#2d6ba0;--s6:#5d9fd0;--s7:#8cc0e4;--s8:#"
    "c3e0f5;",
    "--t0:#9aa5b1;--t1:#e8ecf0;--t2:#e8ecf0;--t3:#fff;--t4:#fff;--t5:#fff;--t6:#0b1118;--t7:#0b1118;--t8:#0b1118;",
    "--f0:#5db3f0;--f1:#f29155;--f2:#3fd0a6;--f3:#e59acb;--f4:#d6c24a;--f5:#a9a2ff;--f6:#ff8793;--f7:#8cc4d8;",
    "--mark:#ffb27d}}",
    "*{box-sizing:border-box}",
    "body{margin:0 auto;max-width:1180px;padding:0 16px 40px;background:var(--bg);color:var(--fg);",
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;overflow-wrap:anywhere}",
    "h1{font-size:26px;line-height:1.2;margin:28px 0 8px}h2{font-size:20px;margin:36px 0 4px;",
    "border-top:2px solid var(--line);padding-top:20px}h3{font-size:16px;margin:28px 0 4px}p{margin:4px 0 12px;",
    "max-width:75ch}.dim,small,footer{color:var(--dim)}small{font-size:12px}code{font-size:13px}",
    ".pol{display:inline-flex;gap:7px;align-items:baseline;text-align:left;font-weight:400}",
    ".spec{font:12.5px/1.35 ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;unicode-bidi:isolate}",
    ".num{flex:none;min-width:23px;padding:0 4px;border-radius:4px;border:2px solid;text-align:center;font-size:12px;",
    "line-height:17px}",
    "table{border-collapse:collapse;width:100%;margin:8px 0 4px;font-variant-numeric:tabular-nums}",
    "th{font-size:12px;font-weight:600;color:var(--dim);text-align:right;vertical-align:bottom;padding:4px 8px}",
    "td{padding:5px 8px;border-top:1px solid var(--line);text-align:right;vertical-align:middle}",
    "th.l,td.l{text-align:left;padding-left:0}td.l{min-width:150px;max-width:330px}",
    ".lead td:nth-child(n+4){white-space:nowrap}",
    "svg{display:block;overflow:visible}",
    ".ci,.bar{width:100%;min-width:90px;height:8px;margin-top:2px}.bar{height:10px}.rail{fill:var(--line)}",
    ".span{fill:var(--s5)}.at{fill:var(--fg)}.time td{width:32%}.time .val{font-size:13px}",
    ".tasks th span{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap;font-size:11.5px}",
    ".tasks td{padding:3px 2px;text-align:center}.tasks td.l{text-align:left;padding-right:8px}",
    ".tasks td b{display:block;font-size:13px;font-weight:600;line-height:1.25}",
    ".tasks td small{display:block;font-size:10px;line-height:1.2;color:inherit;white-space:nowrap}",
    ".tasks th{text-align:center;padding:4px 0}.tasks th.l{text-align:left}.tasks th span{display:inline-block}",
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:18px 26px}.curves{",
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr))}",
    ".maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,216px),1fr));gap:18px 26px}",
    "figure{margin:0;min-width:0}figcaption{font-size:13px;margin-bottom:4px}figure svg{width:100%;max-width:520px;",
    "height:auto}figure.small svg{max-width:330px}svg.map{width:216px;max-width:100%;height:auto}",
    ".ax{font-size:11px;fill:var(--dim)}.lab{font-size:11px;font-weight:600;fill:var(--fg)}.in{font-size:10px}",
    ".grid{stroke:var(--line);stroke-width:1}.full{stroke:var(--dim);stroke-width:1.5;stroke-dasharray:5 4}",
    ".join{stroke-width:1.5;opacity:.75}.whisker{stroke-width:1;opacity:.55}.lead-line{stroke:var(--dim);",
    "stroke-width:.7}.m{stroke:var(--bg);stroke-width:1}",
    ".key{list-style:none;margin:14px 0 0;padding:0;display:grid;gap:5px 18px;",
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,270px),1fr))}",
    ".scale{display:flex;align-items:center;gap:0;font-size:12px;color:var(--dim);flex-wrap:wrap}",
    ".scale i{width:20px;height:14px}.scale span{margin:0 8px 0 0}.scale span:last-child{margin:0 0 0 8px}",
    "details{border-top:1px solid var(--line);padding:8px 0}summary{cursor:pointer}",
    ".held{display:flex;flex-wrap:wrap;gap:18px;align-items:flex-start;margin-top:8px}",
    ".held .text{flex:1 1 340px;min-width:0;max-width:100%;white-space:pre-wrap;margin:0;",
    "font:12px/1.65 ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;unicode-bidi:isolate}",
    ".held figure{flex:0 0 auto;max-width:100%}.text span{border-radius:2px}",
    ".text .h0{background:none;color:var(--dim);opacity:.85}.text u{text-decoration:underline 2px var(--mark);",
    "text-underline-offset:3px;font-weight:700}",
    ".text em{display:block;margin:6px 0;color:var(--dim);font-style:normal}.strip{width:100%;height:22px;margin:8px 0 "
    "0}",
    "blockquote{margin:6px 0;padding:4px 12px;border-left:3px solid var(--line);white-space:pre-wrap;font-size:13px}",
    "@media (max-width:980px){.tasks thead,.lead thead,.lost thead{display:none}",
    ".tasks,.tasks tbody,.lead,.lead tbody,.lost,.lost tbody{display:block}",
    ".tasks tr,.lead tr,.lost tr{display:flex;flex-wrap:wrap;gap:6px;padding:8px 0;border-top:1px solid var(--line)}",
    ".tasks td,.lead td,.lost td{border:0;padding:4px 6px;min-width:104px;text-align:left;background-clip:padding-box}",
    ".tasks td.l,.lead td.l,.lost td.l{flex:1 0 100%;max-width:none;padding:0}",
    ".tasks td[data-l]::before,.lead td[data-l]::before,.lost td[data-l]::before{content:attr(data-l);display:block;",
    "font-size:11px;opacity:.85}.lead td[data-l]{flex:1 1 130px}.lost td[data-l]{flex:1 1 120px}",
    ".tasks td small{font-size:11px}.tasks td[data-l]{flex:0 0 118px}}",
    "@media (max-width:520px){.time thead{display:none}.time,.time tbody{display:block}.time tr{display:flex;",
    "flex-wrap:wrap;gap:4px 14px;padding:8px 0;border-top:1px solid var(--line)}.time td{border:0;padding:0;flex:1 1 "
    "40%;",
    "text-align:left}.time td.l{flex:1 0 100%;max-width:none}.time td[data-l]::before{content:attr(data-l) \" \";",
    "font-size:11px;color:var(--dim)}}",
    "@media print{body{max-width:none;font-size:12px}h2{break-before:auto}figure,tr,.key{break-inside:avoid}",
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}"};

void report_style(FILE *out) {
    fputs("<style>\n", out);
    for (size_t i = 0; i < sizeof style / sizeof *style; i++)
        fprintf(out, "%s\n", style[i]);
    for (unsigned level = 0; level < REPORT_LEVELS; level++)
        fprintf(out, ".h%u{background-color:var(--s%u);color:var(--t%u);fill:var(--s%u)}.t%u{fill:var(--t%u)}\n", level,
                level, level, level, level, level);
    for (unsigned colour = 0; colour < 8; colour++)
        fprintf(out, ".num.f%u{border-color:var(--f%u)}line.f%u{stroke:var(--f%u)}.m.f%u{fill:var(--f%u)}\n", colour,
                colour, colour, colour, colour, colour);
    fputs("</style>\n", out);
}

"""chart.py - the style that tools/chart_bytes.py and tools/chart_context.py give their pictures."""


def colours(scheme, classes):
    """Returns the style rules of a color scheme. They use no custom properties, because some SVG viewers do not support
    these."""
    rules = [f'text {{ fill: {scheme["text"]}; }}', f'.quiet {{ fill: {scheme["quiet"]}; }}',
             f'.grid {{ stroke: {scheme["grid"]}; }}']
    for name in classes:
        rules.append(f'.{name} .line {{ stroke: {scheme[name]}; }} .{name} .dot, .{name} text {{ fill: {scheme[name]}; }}')
    return "\n".join(rules)


def style(light, dark, classes):
    """Returns the style of a picture with lines of these classes."""
    return f"""
text {{ font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }}
.title {{ font-weight: 600; font-size: 15px; }}
.quiet {{ font-size: 12px; }}
.label {{ font-weight: 600; }}
.line {{ fill: none; stroke-width: 2.25; stroke-linejoin: round; }}
{colours(light, classes)}
@media (prefers-color-scheme: dark) {{
{colours(dark, classes)}
}}
"""

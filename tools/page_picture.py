#!/usr/bin/env python3
"""Makes docs/pictures/page.png, a screenshot of two methods side by side on the page of `kvcull serve`. Needs Chromium
and Pillow.

    python3 tools/page_picture.py build/kvcull models-local/smollm2.gguf docs/pictures/page.png
"""
import io
import os
import shutil
import subprocess
import sys
import tempfile

from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'serve'))
sys.dont_write_bytecode = True
from browser import Browser, Page  # noqa: E402

POLICIES = ('snapkv:budget=128', 'streaming:budget=128')


def main():
    program, model, picture = sys.argv[1:]
    browser_program = shutil.which('chromium') or shutil.which('google-chrome')
    server = subprocess.Popen([program, 'serve', '-m', model, '--kv', POLICIES[0], '--port', '0', '-q'],
                              stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().split()[2]
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(browser_program, os.path.join(folder, 'profile'))
        try:
            page = Page(browser, url + '#compare', 1100, 900)
            page.until("document.documentElement.dataset.ready === 'yes'")
            page.click('#example')
            page.run("sides[1].policy.set('%s'); byId('duel-most').value = 40" % POLICIES[1])
            page.until('sides.every((side) => side.policy.said)')
            page.click('#duel-send')
            page.until('!duel && sides.every((side) => side.view.answer && side.view.answer.over)')
            name = "sides[1].view.spans.findIndex((span) => span.textContent === ' Ada')"
            page.run('sides[1].view.lookAt(%s); document.activeElement.blur()' % name)
            page.picture(os.path.join(folder, 'page.png'), whole=True)
            with open(os.path.join(folder, 'page.png'), 'rb') as data:
                image = Image.open(io.BytesIO(data.read())).convert('RGB')
        finally:
            browser.close()
            server.terminate()
    image.quantize(48, dither=Image.Dither.NONE).save(picture, optimize=True)


main()

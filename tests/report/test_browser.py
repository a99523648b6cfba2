"""The page in a real browser, headless: what a reader sees, and that nothing is fetched."""

import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.mark.slow
def test_the_page_in_chromium(bench_folder, browser):
    folder, _ = bench_folder
    address = (folder / "report.html").as_uri()
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [address]
    widths = page.evaluate("[...document.images].map(i => i.complete ? i.naturalWidth : 0)")
    assert len(widths) == 12
    assert min(widths) > 0
    # On a laptop nothing is cut off: neither the page nor a table needs scrolling sideways.
    overflow = "e => e.scrollWidth - e.clientWidth"
    assert page.evaluate(f"({overflow})(document.documentElement)") <= 0
    assert max(page.eval_on_selector_all(".scroll", f"all => all.map({overflow})")) <= 0
    # Every place that the contents point to exists.
    targets = page.eval_on_selector_all("nav a", "all => all.map(a => a.getAttribute('href'))")
    assert all(page.query_selector(target) is not None for target in targets)
    page.close()


@pytest.mark.slow
def test_on_paper(bench_folder, browser):
    folder, _ = bench_folder
    page = browser.new_page()
    page.goto((folder / "report.html").as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})  # A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert 5 < pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") < 25
    page.close()

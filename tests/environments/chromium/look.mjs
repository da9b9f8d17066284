// Opens pages in Chromium, narrow and wide, light and dark, and prints what happened there as one JSON document:
// node look.mjs FOLDER PAGE... with the folder of `install`. SCREENSHOTS=DIR keeps pictures.
import { accessibility, launch, listen, sideways } from "./browser.mjs";

const [folder, ...pages] = process.argv.slice(2);
const browser = await launch(folder);
const serious = accessibility(folder);
const found = [];
for (const [number, place] of pages.entries()) {
  for (const width of [400, 1400]) {
    for (const scheme of ["light", "dark"]) {
      const page = await browser.newPage();
      const told = listen(page, (url) => url === place);
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(place);
      const closed = await sideways(page);
      if (process.env.SCREENSHOTS) {
        await page.screenshot({ path: `${process.env.SCREENSHOTS}/${number}-${width}-${scheme}.png`, fullPage: true });
      }
      const details = await page.evaluate(() => {
        const all = [...document.querySelectorAll("details")];
        for (const each of all) each.open = true;
        return all.length;
      });
      const open = await sideways(page);
      if (details > 100) await page.reload(); // axe-core takes a minute for what is open in a long page
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll("*")]
          .filter((each) => getComputedStyle(each).overflowX === "hidden" && each.clientWidth > 1)
          .filter((each) => each.scrollWidth > each.clientWidth + 1)
          .map((each) => `cut: ${each.outerHTML.slice(0, 200)}`),
      );
      const faults = (width === 400) === (scheme === "light") ? await serious(page) : [];
      found.push({
        page: place,
        width,
        scheme,
        told,
        wider: Math.max(closed, open),
        details,
        hacked: await page.evaluate(() => "hacked" in window),
        faults: [...cut, ...faults],
      });
      await page.close();
    }
  }
}
await browser.close();
console.log(JSON.stringify(found));

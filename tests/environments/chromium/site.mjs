// Opens pages of the built documentation in Chromium, narrow and wide, and prints what is wrong as one JSON list:
// node site.mjs FOLDER SITE PATH... with the folder of `install` and the URL of the site. SCREENSHOTS=DIR keeps pictures,
// light and dark.
import { availableParallelism } from "node:os";
import { accessibility, launch, listen, sideways } from "./browser.mjs";

const [folder, site, ...paths] = process.argv.slice(2);
const serious = accessibility(folder);
const wrong = [];
const waiting = [...paths.entries()];

// Each in a browser of its own: a page that is not in front gets no events of its new width.
async function look() {
  const browser = await launch(folder);
  for (let next; (next = waiting.shift()); ) await lookAt(browser, ...next);
  await browser.close();
}

async function lookAt(browser, number, path) {
  const context = await browser.createBrowserContext(); // the site remembers its colours
  const page = await context.newPage();
  const told = listen(page, (url) => url.startsWith(site));
  const prefer = (value) => page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
  const scheme = number % 2 ? "light" : "dark"; // axe-core is slow; both schemes colour the same elements
  await prefer(scheme);
  await page.setViewport({ width: 400, height: 900 });
  await page.goto(site + path);
  await page.addStyleTag({ content: "* { transition: none !important }" }); // between the colours of two schemes
  if (process.env.SCREENSHOTS) {
    for (const width of [400, 1400]) {
      await page.setViewport({ width, height: 900 });
      for (const each of ["light", "dark"]) {
        await prefer(each);
        await page.screenshot({ path: `${process.env.SCREENSHOTS}/${number}-${width}-${each}.png` });
      }
    }
    await prefer(scheme);
  }
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  const found = [];
  for (const width of [1400, 400]) {
    await page.setViewport({ width, height: 900 });
    const wider = await sideways(page);
    if (wider > 0) found.push(`${wider} pixels wider than ${width}`);
  }
  found.push(...(await serious(page)), ...told);
  wrong.push(...found.map((fault) => `/${path}: ${fault}`));
  await context.close();
}
await Promise.all(Array.from({ length: Math.min(availableParallelism(), 4) }, look));
console.log(JSON.stringify(wrong));

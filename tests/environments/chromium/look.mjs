// Opens pages in Chromium, narrow and wide, light and dark, and prints what happened there as one JSON document:
// node look.mjs FOLDER PAGE... with the folder of `install`. SCREENSHOTS=DIR keeps pictures.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, ...pages] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const libraries = readdirSync(`${folder}/system/usr/lib`)
  .filter((name) => name.endsWith("-linux-gnu"))
  .map((name) => `${folder}/system/usr/lib/${name}`)
  .flatMap((path) => [path, `${path}/pulseaudio`]);
const browser = await puppeteer.launch({
  executablePath: `${folder}/system/usr/lib/chromium/chromium`,
  // Pages of our own, in containers that have no user namespaces and little shared memory.
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  env: { ...process.env, LD_LIBRARY_PATH: libraries.join(":"), FONTCONFIG_FILE: `${folder}/fonts/fonts.conf` },
});
const found = [];
for (const [number, place] of pages.entries()) {
  for (const width of [400, 1400]) {
    for (const scheme of ["light", "dark"]) {
      const page = await browser.newPage();
      const told = [];
      page.on("console", (message) => told.push(`console: ${message.text()}`));
      page.on("pageerror", (error) => told.push(`error: ${error.message}`));
      page.on("dialog", (dialog) => (told.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
      page.on("request", (request) => {
        const url = request.url();
        if (url !== place && !url.startsWith("data:")) told.push(`request: ${url}`);
      });
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(place);
      const closed = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (process.env.SCREENSHOTS) {
        await page.screenshot({ path: `${process.env.SCREENSHOTS}/${number}-${width}-${scheme}.png`, fullPage: true });
      }
      const details = await page.evaluate(() => {
        const all = [...document.querySelectorAll("details")];
        for (const each of all) each.open = true;
        return all.length;
      });
      const open = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (details > 100) await page.reload(); // axe-core takes a minute for what is open in a long page
      let serious = [];
      if ((width === 400) === (scheme === "light")) {
        await page.evaluate(axe); // by the protocol, which the page's Content-Security-Policy does not concern
        const faults = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        serious = faults.violations.filter((fault) => ["serious", "critical"].includes(fault.impact));
      }
      found.push({
        page: place,
        width,
        scheme,
        told,
        wider: Math.max(closed, open),
        details,
        hacked: await page.evaluate(() => "hacked" in window),
        faults: serious.map((fault) => `${fault.id}: ${fault.nodes[0].html.slice(0, 200)}`),
      });
      await page.close();
    }
  }
}
await browser.close();
console.log(JSON.stringify(found));

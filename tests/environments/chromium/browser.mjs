// Chromium and axe-core from the folder of `install`.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";

export async function launch(folder) {
  const require = createRequire(`${folder}/`);
  const libraries = readdirSync(`${folder}/system/usr/lib`)
    .filter((name) => name.endsWith("-linux-gnu"))
    .map((name) => `${folder}/system/usr/lib/${name}`)
    .flatMap((path) => [path, `${path}/pulseaudio`]);
  return await require("puppeteer-core").launch({
    executablePath: `${folder}/system/usr/lib/chromium/chromium`,
    // Pages of our own, in containers that have no user namespaces and little shared memory.
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    env: { ...process.env, LD_LIBRARY_PATH: libraries.join(":"), FONTCONFIG_FILE: `${folder}/fonts/fonts.conf` },
  });
}

// A function that gives the serious faults of accessibility that axe-core finds in a page.
export function accessibility(folder) {
  const axe = readFileSync(createRequire(`${folder}/`).resolve("axe-core/axe.min.js"), "utf8");
  return async (page) => {
    await page.evaluate(axe); // by the protocol, which the page's Content-Security-Policy does not concern
    const faults = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    return faults.violations
      .filter((fault) => ["serious", "critical"].includes(fault.impact))
      .map((fault) => `${fault.id}: ${fault.nodes[0].html.slice(0, 200)}`);
  };
}

// What a page reports by itself, from now on: messages, errors, dialogs, and requests that are not expected.
export function listen(page, expected) {
  const told = [];
  page.on("console", (message) => told.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => told.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => (told.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => {
    const url = request.url();
    if (!expected(url) && !url.startsWith("data:")) told.push(`request: ${url}`);
  });
  return told;
}

// By how many pixels a page is wider than the window.
export const sideways = (page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

// Opens links in viewers in Chromium, and prints for each what is seen and asked as one JSON list:
// node look.mjs CHROMIUM ADDRESS UNTIL URL... with the folder of chromium's `install` and the address of the archive.
// Looks until red and green are seen, or a key that matches UNTIL has come, or the browser has refused to ask.
// SCREENSHOTS=DIR keeps pictures.
import { launch } from "../chromium/browser.mjs";

const [folder, address, until, ...urls] = process.argv.slice(2);
const PATIENCE = 60_000;

// Pixels that are red or green alone: how many, and the place of their middle from left to right.
async function colours(eye, picture) {
  return await eye.evaluate(async (picture) => {
    const image = new Image();
    image.src = `data:image/png;base64,${picture}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const found = { red: { pixels: 0, x: 0 }, green: { pixels: 0, x: 0 } };
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue] = data.slice(at, at + 3);
      const seen = blue > 20 ? null : red > 230 && green < 20 ? found.red : green > 230 && red < 20 ? found.green : null;
      if (seen) (seen.pixels++, (seen.x += (at / 4) % image.width));
    }
    for (const seen of Object.values(found)) seen.x /= seen.pixels || 1;
    return found;
  }, picture);
}

const browser = await launch(folder);
const eye = await browser.newPage();
const looks = [];
for (const [number, url] of urls.entries()) {
  const page = await browser.newPage();
  await page.setViewport({ width: 900, height: 600 });
  const answers = [], failed = [];
  const key = (request) => request.url().slice(address.length);
  const isOurs = (request) => request.url().startsWith(address);
  page.on("response", (response) => {
    const request = response.request();
    if (!isOurs(request)) return;
    answers.push([request.method(), response.status(), request.headers().range ?? null, key(request)]);
  });
  page.on("requestfailed", (request) => {
    if (isOurs(request)) failed.push([request.failure().errorText, key(request)]);
  });
  await page.goto(url);
  const end = Date.now() + PATIENCE;
  let seen, picture;
  do {
    picture = await page.screenshot({ encoding: "base64" });
    seen = await colours(eye, picture);
  } while (
    !(seen.red.pixels > 2000 && seen.green.pixels > 2000) &&
    !(until && answers.some(([, status, , key]) => status < 300 && key.match(until))) &&
    !failed.some(([why]) => why === "net::ERR_FAILED") &&
    Date.now() < end
  );
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/viewer-${number}.png` });
  // A range of the last bytes needs a preflight (https://fetch.spec.whatwg.org/#cors-safelisted-request-header).
  const suffix = await page.evaluate(async (url) => {
    const asked = fetch(url, { headers: { Range: "bytes=-9" } });
    return await asked.then(async (response) => [response.status, await response.text()], String);
  }, `${address}zarr.json`);
  looks.push({ url, seen, answers, failed, suffix });
  await page.close();
}
await browser.close();
console.log(JSON.stringify(looks));

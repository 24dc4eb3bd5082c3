/** What to do about an APIService that is down: `oarlock doctor` says the same, of the same file. */
import meanings from "../../../src/oarlock/cli/doctor/advice.json";

/** What to do about a reason and message, empty for one that isn't known. */
export function adviceAbout(text: string): string {
  return meanings.find(({ pattern }) => new RegExp(pattern).test(text))?.advice ?? "";
}

/** Begins the console: the settings, the credentials, then what is served. */
import "@xterm/xterm/css/xterm.css";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { Root } from "./views/root";

const place = document.getElementById("app");
if (place) render(<Root />, place);

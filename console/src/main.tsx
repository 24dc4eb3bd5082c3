/** Begins the console: the settings, the credentials, then what is served. */
import "./style.css";
import { render } from "preact";
import { Root } from "./views/root";

const place = document.getElementById("app");
if (place) render(<Root />, place);

import { Tidings, tokenFrom } from "@tidings/client/elements/chat.js";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";

const token = tokenFrom("/token");
const tidings = new Tidings("http://127.0.0.1:8080", { token });

function Chat() {
  useEffect(() => {
    tidings.start();
    return () => void tidings.stop();
  }, []);
  return <tidings-chat tidings={tidings} />;
}

createRoot(document.querySelector("#app")).render(<Chat />);

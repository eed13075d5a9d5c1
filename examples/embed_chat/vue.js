import { Tidings, tokenFrom } from "@tidings/client/elements/chat.js";
import { createApp, h, onMounted, onUnmounted } from "vue";

const token = tokenFrom("/token");
const tidings = new Tidings("http://127.0.0.1:8080", { token });

const Chat = {
  setup() {
    onMounted(() => tidings.start());
    onUnmounted(() => tidings.stop());
    return () => h("tidings-chat", { tidings });
  },
};

createApp(Chat).mount("#app");

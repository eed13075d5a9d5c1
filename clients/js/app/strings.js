// SPDX-License-Identifier: Apache-2.0
/** The texts of the app, in the language of the user, and those of the elements with them. */

import { english } from "../elements/strings.js";

/** @typedef {import("../elements/strings.js").Strings} Strings */
/** @typedef {typeof ENGLISH} AppStrings */

const KEY = "tidings language";

const ENGLISH = {
  signIn: "Sign in",
  welcome: "Chat and notifications",
  pick: "Sign in as one of the demo users.",
  byPhone: "With a phone number",
  byToken: "With a token",
  tenant: "Tenant",
  phone: "Phone number",
  code: "Code",
  sendCode: "Send me a code",
  sendAgain: "Send another code",
  sendAgainIn: "Another code in {n} s",
  token: "Token",
  signOut: "Sign out",
  notices: "Desktop notices",
  newMessage: "New message from {who}",
  newPush: "New message",
  newPushInbox: "New notification",
  askNotices: "Would you like a notice of new messages, even while this page is closed?",
  turnOn: "Turn on notifications",
  notNow: "Not now",
  language: "Language",
  failed: "That did not work. Try again.",
  api: "For developers",
};

/** @type {Record<string, {name: string, app: AppStrings, load: () => Promise<Strings>}>} */
export const LANGUAGES = {
  en: { name: "English", app: ENGLISH, load: async () => english },
  de: {
    name: "Deutsch",
    app: {
      signIn: "Anmelden",
      welcome: "Chat und Mitteilungen",
      pick: "Weiter als eine der Personen der Demo.",
      byPhone: "Mit einer Telefonnummer",
      byToken: "Mit einem Token",
      tenant: "Mandant",
      phone: "Telefonnummer",
      code: "Code",
      sendCode: "Code senden",
      sendAgain: "Noch einen Code senden",
      sendAgainIn: "Noch ein Code in {n} s",
      token: "Token",
      signOut: "Abmelden",
      notices: "Hinweise auf dem Desktop",
      newMessage: "Neue Nachricht von {who}",
      newPush: "Neue Nachricht",
      newPushInbox: "Neue Mitteilung",
      askNotices: "Möchtest du Hinweise auf neue Nachrichten, auch wenn diese Seite zu ist?",
      turnOn: "Hinweise einschalten",
      notNow: "Jetzt nicht",
      language: "Sprache",
      failed: "Das hat nicht geklappt. Versuch es noch einmal.",
      api: "Für Entwickler",
    },
    load: async () => (await import("../elements/strings_de.js")).german,
  },
  ar: {
    name: "العربية",
    app: {
      signIn: "تسجيل الدخول",
      welcome: "محادثات وإشعارات",
      pick: "تابع كأحد أشخاص العرض.",
      byPhone: "برقم الهاتف",
      byToken: "برمز وصول",
      tenant: "المستأجر",
      phone: "رقم الهاتف",
      code: "الرمز",
      sendCode: "أرسل لي رمزًا",
      sendAgain: "أرسل رمزًا آخر",
      sendAgainIn: "رمز آخر بعد {n} ث",
      token: "رمز الوصول",
      signOut: "تسجيل الخروج",
      notices: "إشعارات سطح المكتب",
      newMessage: "رسالة جديدة من {who}",
      newPush: "رسالة جديدة",
      newPushInbox: "إشعار جديد",
      askNotices: "هل تريد تنبيهًا بالرسائل الجديدة حتى عندما تكون هذه الصفحة مغلقة؟",
      turnOn: "تشغيل الإشعارات",
      notNow: "ليس الآن",
      language: "اللغة",
      failed: "لم ينجح ذلك. حاول مرة أخرى.",
      api: "للمطورين",
    },
    load: async () => (await import("../elements/strings_ar.js")).arabic,
  },
};

/** Return the language that was chosen, or the first of the browser's that there is. */
export function language() {
  const wanted = [localStorage.getItem(KEY) ?? "", ...navigator.languages];
  const known = wanted.map((tag) => tag.slice(0, 2)).find((tag) => tag in LANGUAGES);
  return known ?? "en";
}

/** @param {string} tag */
export function choose(tag) {
  localStorage.setItem(KEY, tag);
  location.reload();
}

/** Return all texts, and set the direction of the page. */
export async function load() {
  const tag = language();
  const { app, load } = LANGUAGES[tag] ?? /** @type {any} */ (LANGUAGES.en);
  document.documentElement.lang = tag;
  document.documentElement.dir = tag === "ar" ? "rtl" : "ltr";
  return { app: /** @type {AppStrings} */ (app), elements: /** @type {Strings} */ (await load()) };
}

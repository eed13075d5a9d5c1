// SPDX-License-Identifier: Apache-2.0
/** The English texts of what `<tidings-inbox>` loads at its first use. */

/** @typedef {typeof inboxEnglish} InboxStrings */

export const inboxEnglish = {
  snoozeHour: "For an hour",
  snoozeEvening: "This evening",
  snoozeTomorrow: "Tomorrow morning",
  snoozeWeek: "Next week",
  snoozePick: "Choose a time …",
  snoozeUntil: "Snooze until",
  archived: "Archived",
  noArchived: "Nothing is archived",
  unarchive: "Move to the inbox",
  snoozed: "Snoozed",
  noSnoozed: "Nothing is snoozed",
  snoozedUntil: "Until {when}",
  endSnooze: "End the snooze",
  backToInbox: "Back to the notifications",
  preferences: "Preferences",
  category: "Category",
  inApp: "In the app",
  byPush: "Push",
  byEmail: "E-mail",
  required: "always on",
  quietHours: "Quiet hours, without push and e-mail",
  quietFrom: "From",
  quietTo: "To",
  timeZone: "Time zone",
  playSound: "Play a sound on this device, except in quiet hours",
  save: "Save",
  saved: "Saved",
};

/**
 * Return all texts of an element.
 *
 * @param {{strings: import("./strings.js").Strings}} element
 */
export const inboxWords = ({ strings }) => ({ ...inboxEnglish, ...strings });

// SPDX-License-Identifier: Apache-2.0
/** The English texts that a page without chats needs; `strings.js` has all of them. */

export const basic = {
  /** The language for times and numbers; empty for that of the browser. */
  locale: "",
  notifications: "Notifications",
  noNotifications: "You are all caught up",
  loading: "Loading …",
  unread: "Unread: {n}",
  markAllRead: "Mark all as read",
  markUnread: "Mark as unread",
  archive: "Archive",
  snooze: "Snooze",
  inboxOptions: "Notification options",
  all: "All",
  more: "More",
  wentWrong: "That did not work",
};

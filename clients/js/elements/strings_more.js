// SPDX-License-Identifier: Apache-2.0
/** The English texts of what `<tidings-chat>` loads at its first use; `strings.js` has the others. */

/** @typedef {typeof moreEnglish} MoreStrings */

export const moreEnglish = {
  chosenFiles: "Files to send",
  remove: "Remove {name}",
  download: "Download",
  openPicture: "Show {name}",
  uploading: "Uploading {name}",
  cancelUpload: "Cancel the upload",
  tooManyFiles: "A message can have {n} files at most",
  fileCount: "Files: {n}",
  emptyFile: "{name} is empty",
  fileTooLarge: "The file is larger than allowed",
  fileType: "Files of this type are not allowed",
  fileQuota: "Today's limit for files is reached",
  fileUsed: "The file belongs to another message",
  fileGone: "The file is not available any more",
  fileLost: "This browser could not keep the file: choose it again",
  filesOff: "This server does not take files",
  recording: "Recording: {time}",
  stopRecording: "Use the recording",
  voiceNote: "Voice note",
  noMicrophone: "The microphone cannot be used",
  sendAt: "Send at",
  schedule: "Schedule",
  isScheduled: "Scheduled for {when}",
  notInPast: "Choose a time in the future",
  noScheduled: "Nothing is scheduled",
  change: "Change",
  cancelScheduled: "Cancel it",
  tooLate: "It is too late to change this message: it is being sent",
  scheduledFailed: "A scheduled message could not be sent",
  notSent: "Not sent: {why}",
  whyNotMember: "you are not in this chat",
  whyRestored: "the server was restored, and does not know whether it was sent",
  invitedBy: "{who} invites you",
  accept: "Accept",
  decline: "Decline",
  declined: "Declined. Nobody is told.",
  noInvitations: "No invitations",
  blockedPeople: "Blocked people",
  noBlocked: "You have blocked nobody",
  reason: "Reason",
  comment: "Comment",
  reported: "Reported. Thank you.",
  spam: "Spam",
  abuse: "Abuse",
  illegal: "Illegal",
  other: "Something else",
  keyList:
    "Enter: send · Shift+Enter: new line · @: mention somebody · Up in an empty field: edit the last message · Escape: back to the field · Up and Down: through chats or messages · Enter on a message: its actions · End: latest message · Ctrl+F: search in a long chat",
};

/**
 * Return all texts of an element.
 *
 * @param {{strings: import("./strings.js").Strings}} element
 */
export const wordsOf = ({ strings }) => ({ ...moreEnglish, ...strings });

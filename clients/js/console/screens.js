// SPDX-License-Identifier: Apache-2.0
/** All screens, in the order of the menu. Another one is a file, and a line here. */

import { AuditScreen, TenantAuditScreen } from "./audit.js";
import { CapacityScreen } from "./capacity.js";
import { ChatScreen, MessageScreen } from "./chat.js";
import { ChatsScreen } from "./chats.js";
import { DeadLettersScreen } from "./dead_letters.js";
import { ExplainedScreen, ExplainScreen, ExplainWhatScreen } from "./explain.js";
import { InboxesScreen } from "./inboxes.js";
import { JobScreen } from "./job.js";
import { KeysScreen } from "./keys.js";
import { NotificationScreen, NotificationsScreen } from "./notifications.js";
import { OverviewScreen, SettingsScreen } from "./overview.js";
import { PushScreen } from "./push.js";
import { ReportsScreen } from "./reports.js";
import { TenantScreen } from "./tenant.js";
import { TenantsScreen } from "./tenants.js";
import { TracedScreen, TraceScreen } from "./trace.js";
import { UserScreen } from "./user.js";
import { UsersScreen } from "./users.js";
import { WebhookScreen, WebhooksScreen } from "./webhooks.js";

/** @type {readonly (typeof import("./screen.js").Screen)[]} */
export const SCREENS = [
  OverviewScreen,
  TenantsScreen,
  DeadLettersScreen,
  CapacityScreen,
  AuditScreen,
  SettingsScreen,
  TenantScreen,
  ExplainScreen,
  ExplainWhatScreen,
  ExplainedScreen,
  TraceScreen,
  TracedScreen,
  UsersScreen,
  UserScreen,
  ReportsScreen,
  ChatsScreen,
  ChatScreen,
  MessageScreen,
  InboxesScreen,
  NotificationsScreen,
  NotificationScreen,
  WebhooksScreen,
  WebhookScreen,
  PushScreen,
  KeysScreen,
  JobScreen,
  TenantAuditScreen,
];

import createCache from "@emotion/cache";
import { CacheProvider } from "@emotion/react";
import { ChakraProvider } from "@chakra-ui/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { App } from "./App";
import { mayRetry } from "./api/problem";
import { BASENAME } from "./lib/airflow/base";
import { system } from "./lib/airflow/theme";

/** The content security policy of the server allows style elements with this nonce. */
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";

const styles = createCache({ key: "css", ...(nonce === "" ? {} : { nonce }) });

const client = new QueryClient({
  defaultOptions: { queries: { retry: mayRetry, refetchOnWindowFocus: true, staleTime: 2_000 } },
});

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <CacheProvider value={styles}>
        <ChakraProvider value={system}>
          <QueryClientProvider client={client}>
            <BrowserRouter basename={BASENAME}>
              <App />
            </BrowserRouter>
          </QueryClientProvider>
        </ChakraProvider>
      </CacheProvider>
    </StrictMode>,
  );
}

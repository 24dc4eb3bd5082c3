import{e as a,f as b,g as c}from"./chunk-4UXZHD42.js";import"./chunk-2UIZKRCV.js";import"./chunk-FZ4DFK2K.js";import"./chunk-23MC5BPR.js";export{b as Create,a as Edit,c as diagnosticsOf};
